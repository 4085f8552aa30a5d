"""The numbers of the system calls that a filter names, on the machines that it is written for.

From ``arch/x86/entry/syscalls/syscall_64.tbl`` and ``include/uapi/asm-generic/unistd.h`` (which
arm64 uses) of Linux; from 424 on, all machines share them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Literal

Machine = Literal["x86_64", "aarch64"]

NEWEST = 469
"""The newest call that was looked at for this table (``file_setattr``, Linux 6.17)."""

_TABLE = """
ptrace 101 117
process_vm_readv 310 270
process_vm_writev 311 271
process_madvise 440 440
process_mrelease 448 448
pidfd_getfd 438 438
kcmp 312 272
move_pages 279 239
migrate_pages 256 238
mount 165 40
umount2 166 39
pivot_root 155 41
chroot 161 51
unshare 272 97
setns 308 268
open_tree 428 428
open_tree_attr 467 467
move_mount 429 429
fsopen 430 430
fsconfig 431 431
fsmount 432 432
fspick 433 433
mount_setattr 442 442
bpf 321 280
perf_event_open 298 241
userfaultfd 323 282
io_uring_setup 425 425
io_uring_enter 426 426
io_uring_register 427 427
fanotify_init 300 262
keyctl 250 219
add_key 248 217
request_key 249 218
name_to_handle_at 303 264
open_by_handle_at 304 265
kexec_load 246 104
kexec_file_load 320 294
init_module 175 105
finit_module 313 273
delete_module 176 106
reboot 169 142
swapon 167 224
swapoff 168 225
acct 163 89
quotactl 179 60
quotactl_fd 443 443
settimeofday 164 170
clock_settime 227 112
clock_adjtime 305 266
sethostname 170 161
setdomainname 171 162
syslog 103 116
vhangup 153 58
lookup_dcookie 212 18
nfsservctl 180 42
iopl 172 -
ioperm 173 -
modify_ldt 154 -
uselib 134 -
_sysctl 156 -
shmget 29 194
shmat 30 196
shmctl 31 195
semget 64 190
semop 65 193
semtimedop 220 192
semctl 66 191
msgget 68 186
msgsnd 69 189
msgrcv 70 188
msgctl 71 187
mq_open 240 180
mq_unlink 241 181
inotify_add_watch 254 27
chmod 90 -
fchmod 91 52
fchmodat 268 53
fchmodat2 452 452
chown 92 -
lchown 94 -
fchown 93 55
fchownat 260 54
utime 132 -
utimes 235 -
futimesat 261 -
utimensat 280 88
setxattr 188 5
lsetxattr 189 6
fsetxattr 190 7
setxattrat 463 463
removexattr 197 14
lremovexattr 198 15
fremovexattr 199 16
removexattrat 466 466
file_setattr 469 469
seccomp 317 277
socket 41 198
socketpair 53 199
clone 56 220
clone3 435 435
ioctl 16 29
prlimit64 302 261
setpriority 141 140
sched_setaffinity 203 122
sched_setscheduler 144 119
sched_setparam 142 118
sched_setattr 314 274
ioprio_set 251 30
"""


def syscall_numbers(machine: Machine) -> Mapping[str, int]:
    """The numbers by name; a call that a machine does not have is not among them."""
    column = ("x86_64", "aarch64").index(machine) + 1
    rows = (line.split() for line in _TABLE.split("\n") if line)
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


def machine_named(name: str) -> Machine | None:
    """The machine of this name (as of `platform.machine`); None where there is no table of it."""
    if struct.calcsize("P") != 8:  # a Python of 32 bits makes other calls
        return None
    return "x86_64" if name == "x86_64" else "aarch64" if name == "aarch64" else None
