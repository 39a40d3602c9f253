"""Every public name says what it is and what it takes."""
import inspect

import pytest

import neap


def members(owner):
    """The public attributes that a class has itself, with those of the classes of the library that it extends."""
    for name in dir(owner):
        value = inspect.getattr_static(owner, name)
        owners = [base for base in owner.__mro__ if name in base.__dict__]
        if not name.startswith("_") and owners[0].__module__.startswith("neap"):
            yield name, value


def public():
    for name in neap.__all__:
        value = getattr(neap, name)
        yield name, value
        if inspect.isclass(value):
            yield from ((f"{name}.{member}", of_class) for member, of_class in members(value))
    for name in dir(neap.nets):
        if not name.startswith("_"):
            yield f"nets.{name}", getattr(neap.nets, name)


def says_its_arguments(value):
    """By inspect.signature(), or in the first line of what help() shows."""
    first = (value.__doc__ or "").splitlines()[:1]
    if first and first[0].startswith(f"{value.__name__}(") and "->" in first[0]:
        return True
    parameters = inspect.signature(value).parameters.values()
    return all(p.kind != p.VAR_KEYWORD and p.name not in ("args", "arguments") for p in parameters)


def text_of(name, value):
    """The docstring, without the signature that nanobind puts before it."""
    text = inspect.getdoc(value) or ""
    if text.startswith(f"{name.split('.')[-1]}("):
        text = text.partition("\n")[2]
    return text.strip()


FIELDS = ("Accuracy.", "LoadedKeys.", "Parameter.", "CustomLayer.", "History.", "Loader.")  # documented by their class


@pytest.mark.parametrize("name, value", list(public()), ids=lambda given: given if isinstance(given, str) else "")
def test_a_public_name_is_documented(name, value):
    if name.startswith(FIELDS) and not callable(value):
        return
    assert len(text_of(name, value)) > 10, f"{name} has no docstring"


@pytest.mark.parametrize("name, value", [(name, value) for name, value in public() if inspect.isroutine(value)],
                         ids=lambda given: given if isinstance(given, str) else "")
def test_a_function_states_what_it_takes(name, value):
    assert says_its_arguments(value), name
