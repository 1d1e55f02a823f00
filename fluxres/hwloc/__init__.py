"""A binding to libhwloc 2 with the public interface of pyhwloc 3.

Programs written for pyhwloc run with ``import fluxres.hwloc as pyhwloc``.  PyPI's pyhwloc requires a newer Python and bundles
its own library; this package works with any libhwloc from 2.1 up to, but not including, 3.  It loads the library at the first
call, not at import.
"""

from __future__ import annotations

from fluxres import __version__
from fluxres.hwloc.topology import Topology, from_pid, from_synthetic, from_this_system, from_xml_buffer, from_xml_file

__all__ = ["Topology", "__version__", "from_pid", "from_synthetic", "from_this_system", "from_xml_buffer", "from_xml_file"]
