"""The notices slice, as the registry sees it: it tells people and agents elsewhere what they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.slices import Slice, late

if TYPE_CHECKING:
    from sitrepd.runtime import Runtime
    from sitrepd.services import Service


def _services(runtime: Runtime) -> Sequence[Service]:
    from sitrepd.notices.clocks import Clocks
    from sitrepd.notices.targets import targets

    if not targets(runtime.settings):
        return (Clocks(runtime),)
    from sitrepd.notices.service import Notices

    return (Clocks(runtime), Notices(runtime))


SLICE = Slice("notices", routers=late("sitrepd.notices.routes", "routers"), services=_services)
