"""The progress of Session.fit(), which tqdm shows if it is installed."""
from collections.abc import Iterable
from typing import Any


class _Silent:
    """Takes the place of a progress bar."""

    def __enter__(self) -> "_Silent":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def set_postfix(self, **values: object) -> None:
        pass

    def update(self) -> None:
        pass


def progress_bar(batches: Iterable[Any], text: str) -> Any:
    """A bar with the number of `batches`, if that is known."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Silent()
    total = len(batches) if hasattr(batches, "__len__") else None
    return tqdm(total=total, desc=text, unit="step")
