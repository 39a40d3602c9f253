#!/usr/bin/env python3
"""Says which tests were skipped, wholly or in part, and why.

    ctest --output-junit FILE ...; scripts/skipped_tests.py FILE      prints a line for each reason, or that nothing was skipped

Tests give the reason where they skip: SkipCase() (tests/skip.h) prints "SKIPPED, no GPU: ...".
"""
import collections
import re
import sys
import xml.etree.ElementTree

REASON = re.compile(r"SKIPPED, (.+)")


def main():
    cases = list(xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase"))
    tests_by_reason = collections.defaultdict(set)
    for case in cases:
        reasons = REASON.findall(case.findtext("system-out") or "")
        if not reasons and case.find("skipped") is not None:
            reasons = ["without a reason"]
        for reason in reasons:
            tests_by_reason[reason.strip()].add(case.get("name"))
    skipped = set().union(*tests_by_reason.values())
    whole = {case.get("name") for case in cases if case.find("skipped") is not None}
    if not skipped:
        print(f"test: none of {len(cases)} tests was skipped")
        return
    print(f"test: of {len(cases)} tests, {len(skipped)} were skipped, {len(skipped - whole)} of them in part:")
    for reason, tests in sorted(tests_by_reason.items(), key=lambda item: (-len(item[1]), item[0])):
        named = ", ".join(sorted(tests)[:3]) + (", ..." if len(tests) > 3 else "")
        print(f"test:   {len(tests)} because of: {reason} ({named})")


main()
