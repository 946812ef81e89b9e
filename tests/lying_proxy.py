"""Stands between process 1 of a run and the store of process 0, and replaces what process 1 tells the others, or
what process 0 tells it. Frames and checksums are correct (runtime/rendezvous/frame.hpp); their contents are not."""

import socket
import struct
import threading

HEADER = 24  # bytes
PUT, ALL = 6, 7  # kinds of frames: what a process tells, and what all have told


def table_entry(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


TABLE = [table_entry(byte) for byte in range(256)]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def receive(s, count):
    data = b""
    while len(data) < count:
        part = s.recv(count - len(data))
        if not part:
            raise OSError("closed")
        data += part
    return data


def texts_in(body):
    count = struct.unpack("<I", body[:4])[0]
    lengths, at, texts = struct.unpack(f"<{count}I", body[4:4 + 4 * count]), 4 + 4 * count, []
    for length in lengths:
        texts.append(body[at:at + length])
        at += length
    return texts


def body_of(texts):
    return struct.pack(f"<{1 + len(texts)}I", len(texts), *map(len, texts)) + b"".join(texts)


class LyingProxy:
    """Whoever calls `port` speaks to `store`; what process `liar` tells in that round is replaced by `lie`. `told`:
    rounds that process 1 has told something in."""

    def __init__(self, store, liar, lie_in_round, lie):
        self.store, self.liar, self.round, self.lie, self.told = store, liar, lie_in_round, lie, 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port, self.sockets = self.listening.getsockname()[1], [self.listening]
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        while True:
            try:
                caller = self.listening.accept()[0]
            except OSError:
                return
            self.sockets.append(caller)
            try:
                store = socket.create_connection(("127.0.0.1", self.store))
            except OSError:  # it calls again
                caller.close()
                continue
            self.sockets.append(store)
            for ends in ((caller, store), (store, caller)):
                self.threads.append(threading.Thread(target=self.pass_on, args=ends))
                self.threads[-1].start()

    def one_frame(self, s):
        head = receive(s, HEADER)
        kind, (number, length) = head[5], struct.unpack("<II", head[8:16])
        body = receive(s, length)
        if kind == PUT:
            self.told = max(self.told, number + 1)
        if number != self.round or kind != (PUT if self.liar == 1 else ALL):
            return head + body
        body = self.lie if kind == PUT else body_of([self.lie, *texts_in(body)[1:]])
        head = head[:12] + struct.pack("<II", len(body), crc32c(body))
        return head + struct.pack("<I", crc32c(head)) + body

    def pass_on(self, a, b):
        try:
            while True:
                b.sendall(self.one_frame(a))
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        for s in self.sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join()
        for s in self.sockets:
            s.close()
