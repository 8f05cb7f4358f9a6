"""The web edition: all lessons as pages that ask for nothing, from a folder or from any web server."""

from lessons.editions.site.building import Site, build
from lessons.editions.site.links import faults

__all__ = ["Site", "build", "faults"]
