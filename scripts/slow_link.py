"""A link between two network namespaces that has a rate and a delay, for kernels without netem: a TAP device in each, and a process that
carries the packets from one to the other. Standard library only; needs root and ip (Debian: iproute2)."""

import collections
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA  # linux/if_tun.h, as are the flags
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
MTU = 9000  # bytes; fewer and larger packets are less work for the process
LARGEST_FRAME = MTU + 64


class SlowLink:
    """Both ends are called `name` in their namespaces. A device lies on a file descriptor of this process, and goes with it."""

    def __init__(self, namespaces, name):
        self.descriptors = []
        self.process = None
        for number, namespace in enumerate(namespaces):
            descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            self.descriptors.append(descriptor)
            made = f"slow{os.getpid() % 10**7}-{number}"
            fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", made.encode(), IFF_TAP | IFF_NO_PI))
            subprocess.run(["ip", "link", "set", "dev", made, "mtu", str(MTU), "netns", namespace, "name", name], check=True)

    def carry(self, rate, delay):
        """From now on at most `rate` Mbit/s each way (None: as fast as it goes), and `delay` ms until a packet arrives."""
        self.stop()
        numbers = [*self.descriptors, rate or 0, delay]
        self.process = subprocess.Popen([sys.executable, __file__, *map(str, numbers)], pass_fds=self.descriptors)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def close(self):
        self.stop()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []


class Direction:
    """What is under way from one end to the other."""

    def __init__(self, source, target, rate, delay):
        self.source, self.target = source, target
        self.seconds_a_byte = 8 / (rate * 1e6) if rate else 0
        self.delay = delay / 1000
        self.free = 0  # when the link has sent what it was given
        self.packets = collections.deque()  # when each arrives, and its bytes

    def take(self):
        try:
            while True:
                packet = os.read(self.source, LARGEST_FRAME)
                self.free = max(self.free, time.monotonic()) + len(packet) * self.seconds_a_byte
                self.packets.append((self.free + self.delay, packet))
        except BlockingIOError:
            pass

    def deliver(self):
        while self.packets and self.packets[0][0] <= time.monotonic():
            os.write(self.target, self.packets.popleft()[1])


def carry_for_good(first, second, rate, delay):
    directions = [Direction(first, second, rate, delay), Direction(second, first, rate, delay)]
    while True:
        for direction in directions:
            direction.take()
            direction.deliver()
        due = [direction.packets[0][0] for direction in directions if direction.packets]
        wait = max(0.0, min(due) - time.monotonic()) if due else 1.0
        select.select((first, second), (), (), wait)  # to the microsecond, unlike poll: else the process would spin between packets


if __name__ == "__main__":
    os.setpriority(os.PRIO_PROCESS, 0, -10)  # a link does not wait for the programs that use it
    carry_for_good(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
