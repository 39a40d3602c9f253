"""The networks that neap has, one function for each; `neap nets` lists them."""
from neap._neap.nets import *  # noqa: F403
