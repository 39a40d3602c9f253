"""The networks that neap has, one function for each; `neap nets` lists them. `nnunet` has those of plans files."""
from neap._neap.nets import *  # noqa: F403
