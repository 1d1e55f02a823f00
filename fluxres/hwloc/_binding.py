"""Where processes, threads and memory are bound."""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any, TypeAlias

from fluxres.hwloc._enums import CpuBindFlags, MemBindFlags, MemBindPolicy
from fluxres.hwloc._library import C, check
from fluxres.hwloc.bitmap import Bitmap
from fluxres.hwloc.hwobject import Object
from fluxres.hwloc.utils import Flags, address_of, or_flags

BindTarget: TypeAlias = Bitmap | set[int] | Object


def _target(target: BindTarget, by_nodes: bool = False) -> Bitmap:
    """The set that a target is; a copy, because it may be changed while the call runs."""
    if isinstance(target, Object):
        found = target.nodeset if by_nodes else target.cpuset
        if found is None:
            raise ValueError(f"Object has no associated {'NUMA nodes' if by_nodes else 'CPUs'}.")
        return found
    if isinstance(target, Bitmap):
        return target.__copy__()
    return Bitmap.from_sched_set(target)


def _thread(thread_id: int) -> int:
    """The id of a thread that runs; libhwloc would follow any other number as a pointer.

    Errors: ValueError for any other number.
    """
    if thread_id not in sys._current_frames():
        raise ValueError(f"no running thread has the id {thread_id}; threading.get_ident() gives them")
    return thread_id


class Binding:
    """Binding of what runs here to processors and memory; flags and policies are those of libhwloc.

    Errors everywhere: NotImplementedError for what the machine cannot, ValueError for empty sets, PermissionError, and
    HwLocError for the rest.
    """

    lock: threading.RLock

    @property
    def native_handle(self) -> ctypes.c_void_p:
        """The pointer to the topology."""
        raise NotImplementedError

    def _bind(self, function: Any, *arguments: Any) -> None:
        # Bitmaps come as they are: their memory has to live until the call is over.
        handles = [given.native_handle if isinstance(given, Bitmap) else given for given in arguments]
        with self.lock:
            check(function(self.native_handle, *handles))

    def _cpus(self, function: Any, *arguments: Any) -> Bitmap:
        """What a function writes to its last argument but one."""
        found = Bitmap()
        with self.lock:
            check(function(self.native_handle, *arguments[:-1], found.native_handle, arguments[-1]))
        return found

    def _memory(self, function: Any, *arguments: Any) -> tuple[Bitmap, MemBindPolicy]:
        found, policy = Bitmap(), ctypes.c_int()
        with self.lock:
            check(function(self.native_handle, *arguments[:-1], found.native_handle, ctypes.byref(policy), arguments[-1]))
        return found, MemBindPolicy(policy.value)

    # -- processors --------------------------------------------------------------------------------------------------

    def set_cpubind(self, target: BindTarget, flags: Flags[CpuBindFlags] = 0) -> None:
        """Bind this process, or this thread."""
        self._bind(C.set_cpubind, _target(target), or_flags(flags))

    def get_cpubind(self, flags: Flags[CpuBindFlags] = 0) -> Bitmap:
        """Where this process, or this thread, is bound."""
        return self._cpus(C.get_cpubind, or_flags(flags))

    def set_proc_cpubind(self, pid: int, target: BindTarget, flags: Flags[CpuBindFlags] = 0) -> None:
        """Bind a process."""
        self._bind(C.set_proc_cpubind, pid, _target(target), or_flags(flags))

    def get_proc_cpubind(self, pid: int, flags: Flags[CpuBindFlags] = 0) -> Bitmap:
        """Where a process is bound."""
        return self._cpus(C.get_proc_cpubind, pid, or_flags(flags))

    def set_thread_cpubind(self, thread_id: int, target: BindTarget, flags: Flags[CpuBindFlags] = 0) -> None:
        """Bind a thread by its ``threading.get_ident()``."""
        self._bind(C.set_thread_cpubind, _thread(thread_id), _target(target), or_flags(flags))

    def get_thread_cpubind(self, thread_id: int, flags: Flags[CpuBindFlags] = 0) -> Bitmap:
        """Where a thread is bound."""
        return self._cpus(C.get_thread_cpubind, _thread(thread_id), or_flags(flags))

    def get_last_cpu_location(self, flags: Flags[CpuBindFlags] = 0) -> Bitmap:
        """Where this process, or this thread, ran last."""
        return self._cpus(C.get_last_cpu_location, or_flags(flags))

    def get_proc_last_cpu_location(self, pid: int, flags: Flags[CpuBindFlags] = 0) -> Bitmap:
        """Where a process ran last."""
        return self._cpus(C.get_proc_last_cpu_location, pid, or_flags(flags))

    # -- memory ------------------------------------------------------------------------------------------------------

    def set_membind(self, target: BindTarget, policy: MemBindPolicy, flags: Flags[MemBindFlags] = 0) -> None:
        """Bind what this process, or this thread, allocates from now on."""
        number = or_flags(flags)
        self._bind(C.set_membind, _target(target, _by_nodes(number)), policy, number)

    def get_membind(self, flags: Flags[MemBindFlags] = 0) -> tuple[Bitmap, MemBindPolicy]:
        """Where memory of this process, or of this thread, comes from."""
        return self._memory(C.get_membind, or_flags(flags))

    def set_proc_membind(self, pid: int, target: BindTarget, policy: MemBindPolicy, flags: Flags[MemBindFlags] = 0) -> None:
        """Bind the memory of a process."""
        number = or_flags(flags)
        self._bind(C.set_proc_membind, pid, _target(target, _by_nodes(number)), policy, number)

    def get_proc_membind(self, pid: int, flags: Flags[MemBindFlags] = 0) -> tuple[Bitmap, MemBindPolicy]:
        """Where memory of a process comes from."""
        return self._memory(C.get_proc_membind, pid, or_flags(flags))

    def set_area_membind(
        self, mem: memoryview, target: BindTarget, policy: MemBindPolicy, flags: Flags[MemBindFlags] = 0
    ) -> None:
        """Bind memory that is there already."""
        number = or_flags(flags)
        self._bind(C.set_area_membind, *address_of(mem), _target(target, _by_nodes(number)), policy, number)

    def get_area_membind(self, mem: memoryview, flags: Flags[MemBindFlags] = 0) -> tuple[Bitmap, MemBindPolicy]:
        """Where memory is bound."""
        return self._memory(C.get_area_membind, *address_of(mem), or_flags(flags))


def _by_nodes(flags: int) -> bool:
    return bool(flags & MemBindFlags.BYNODESET)
