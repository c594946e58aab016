"""A camera of MJPEG in a thread, well behaved or not, for tests of what watches it."""

import io
import socket
import threading
import time
from contextlib import contextmanager, suppress

import numpy as np
from PIL import Image

HEAD = (
    b"HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=frame\r\n"
    b"Connection: close\r\n\r\n"
)


def jpeg(image):
    file = io.BytesIO()
    Image.fromarray(np.asarray(image, np.uint8)).save(file, "JPEG", quality=95)
    return file.getvalue()


def part(data):
    return (
        b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(data)
        + data
        + b"\r\n"
    )


def plain(colour, side=64):
    """A picture of one colour."""
    return np.full((side, side, 3), colour, np.uint8)


def steady(picture, fps=50):
    """What a camera says that shows `picture()`, for ever."""

    def speak(connection):
        connection.sendall(HEAD)
        while True:
            connection.sendall(part(jpeg(picture())))
            time.sleep(1 / fps)

    return speak


class JpegCamera:
    """`speak(connection)` for each viewer, in a thread of its own."""

    def __init__(self, speak):
        self.speak, self._server = speak, socket.create_server(("127.0.0.1", 0))
        self._connections = []
        self.viewers = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.getsockname()[1]}/mjpeg"

    def cut(self):
        """Whoever watches does no more."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections = []

    def close(self):
        self._server.close()
        self.cut()

    def _accept(self):
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self._connections.append(connection)
                self.viewers += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with suppress(OSError), connection:
            request = b""
            while b"\r\n\r\n" not in request:
                piece = connection.recv(4096)
                if not piece:
                    return
                request += piece
            self.speak(connection)


@contextmanager
def camera(speak):
    running = JpegCamera(speak)
    try:
        yield running
    finally:
        running.close()
