"""libhwloc 2 from Python: topologies of machines, with the public interface of pyhwloc 3.

A program written for pyhwloc runs after ``import fluxres.hwloc as pyhwloc``; PyPI's package needs a newer Python and
brings a library of its own, this one takes any libhwloc from 2.1 on.  Nothing is loaded before the first call.
"""

from __future__ import annotations

from fluxres import __version__
from fluxres.hwloc.topology import Topology, from_pid, from_synthetic, from_this_system, from_xml_buffer, from_xml_file

__all__ = ["Topology", "__version__", "from_pid", "from_synthetic", "from_this_system", "from_xml_buffer", "from_xml_file"]
