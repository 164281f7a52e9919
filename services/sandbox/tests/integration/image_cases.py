"""What workspaces with an image must stand: its files as their root, what they change of it, the walls around it."""

import io
import os
import tarfile
from pathlib import Path

from ratchet_kit.errors import FailedPrecondition, InvalidArgument, Unimplemented
from ratchet_testing import images
from ratchet_testing.images import entry
from sandbox_service.domain.levels import Level
from sandbox_service.domain.workspace import WorkspaceSpec

from .workspace_lab import IMAGES, LEASE, LIMITS, MIB, Lab, case

NAME = "cases/app:1"


def save(folder: Path) -> None:
    """The images of these cases."""
    work = [
        entry("testbed/kept.txt", b"kept\n"), entry("testbed/gone.txt", b"x"), entry("testbed/d/a", b"x"),
        entry("testbed/d/deep/b", b"x"), entry("testbed/was_file", b"x"), entry("testbed/was_folder/a", b"x"),
        entry("opt/tool/su", b"#!/bin/sh\nid -u\n", 0o4755), entry("dev/sda", type=tarfile.BLKTYPE),
        entry("testbed/link", type=tarfile.SYMTYPE, linkname="/etc"),
    ]  # fmt: skip
    layers = [images.of_machine(), images.layer(work)]
    images.save(folder / "cases.tar", NAME, layers, {"COLOUR": "blue", "PATH": "/opt/tool:/usr/bin:/bin"}, "/testbed")
    images.save(folder / "broken.tar", "cases/broken:1", [images.layer([entry("../x", b"x")])])
    (folder / "nothing.tar").write_bytes(b"nothing")


async def of_image(lab: Lab, **more: object) -> str:
    return await lab.new(runtime=NAME, **more)  # type: ignore[arg-type]


async def sh(lab: Lab, id: str, script: str) -> str:
    done = await lab.run(id, ("bash", "-c", script))
    assert done.passed, done
    return done.out


async def changed(lab: Lab, id: str, *names: str) -> list[str]:
    packed = b"".join([chunk async for chunk in lab.workspaces.read(id, names, "me", changed=True)])
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return [one.name for one in archive if not one.isdir()]


@case(Level.L2)
async def its_files_are_the_root(lab: Lab) -> None:
    id = await of_image(lab)
    assert await sh(lab, id, "pwd; cat kept.txt; echo $COLOUR $HOME; id -un") == "/testbed\nkept\nblue /root\nsandbox\n"
    assert await sh(lab, id, "echo 1 > kept.txt; touch /root/x /opt/tool/y /etc/z /usr/bin/own; cat kept.txt") == "1\n"
    assert (
        await sh(lab, id, "chmod 700 /opt/tool/su && mv /opt/tool/su /testbed/su && rm -r d && ls -d d || true") == ""
    )
    assert await sh(lab, id, "python3 -c 'import json; print(json.dumps([1]))'; echo a > /dev/null") == "[1]\n"
    assert (await lab.run(id, ("bash", "-c", "pwd"), folder="opt/tool")).out == "/opt/tool\n"
    assert await sh(lab, id, "mkdir /new") == ""
    assert await sh(lab, id, "echo 1 > /new/f; ls / | grep -c .") != "0\n"
    other = await of_image(lab)
    assert (
        await sh(lab, other, "cat kept.txt; ls /root; ls -d /new /etc/z /usr/bin/own 2>/dev/null; ls d")
        == "kept\na\ndeep\n"
    )


@case(Level.L2)
async def what_it_changed_goes_out_and_in(lab: Lab) -> None:
    id = await of_image(lab)
    assert await changed(lab, id, "testbed") == []
    await sh(
        lab, id,
        "echo 1 > kept.txt; rm gone.txt; rm -r d; rm was_file; mkdir was_file; echo 1 > was_file/x; rm -r was_folder; "
        "echo 1 > was_folder; mkdir -p new/deep; echo 1 > new/deep/f; touch .wh.kept.txt; echo 1 > /root/other",
    )  # fmt: skip
    found = await changed(lab, id, "testbed")
    assert sorted(found) == sorted([
        "testbed/kept.txt", "testbed/.wh.gone.txt", "testbed/d/deep/.wh.b", "testbed/d/.wh.deep", "testbed/d/.wh.a",
        "testbed/.wh.d", "testbed/.wh.was_file", "testbed/was_file/x", "testbed/was_folder/.wh.a",
        "testbed/.wh.was_folder", "testbed/was_folder", "testbed/new/deep/f",
    ]), found  # fmt: skip


@case(Level.L2)
async def what_can_not_be_read_is_as_the_image_has_it(lab: Lab) -> None:
    id = await of_image(lab)
    await sh(lab, id, "echo 1 > new; echo 1 > own; chmod 0 own d")
    assert await changed(lab, id, "testbed") == ["testbed/new"]


@case(Level.L2)
async def a_copy_has_what_was_changed(lab: Lab) -> None:
    id = await of_image(lab)
    await sh(lab, id, "echo 1 > kept.txt; rm -r d; rm was_file; mkdir was_file; echo 1 > /root/x; rm link; mkdir link")
    copy = (await lab.workspaces.create(WorkspaceSpec(NAME, LIMITS), LEASE, "me", copy_of=id)).id
    seen = "cat kept.txt /root/x; ls -d d was_file/ link/; ls gone.txt; test ! -L link"
    assert await sh(lab, copy, f"{seen} 2>/dev/null") == "1\n1\nlink/\nwas_file/\ngone.txt\n"
    await lab.write(id, entry("kept.txt", b"xx")[0], folder="testbed")
    assert (await lab.read(id, "testbed/kept.txt"))["testbed/kept.txt"].size == 2
    await lab.refuses(lab.read(id, "testbed/../etc"), InvalidArgument)
    other = await of_image(lab)
    await lab.refuses(lab.write(other, entry("x", b"x")[0], folder="testbed/link"), InvalidArgument)


@case(Level.L2)
async def the_walls_are_those_of_a_runtime(lab: Lab) -> None:
    id = await of_image(lab)
    source = (
        "import ctypes, os, socket, stat\n"
        "libc, found = ctypes.CDLL(None, use_errno=True), []\n"
        "def attempt(name, do):\n"
        "    try: found.append((name, do()))\n"
        "    except OSError: pass\n"
        "for path in ('/proc/self/maps', '/proc/self/mountinfo', '/proc/self/environ', '/proc/1/environ', '/lower',\n"
        "             '/upper', '/disk', '/image', '/names', '/cage', '/mnt/1'):\n"
        "    attempt(path, lambda: os.close(os.open(path, os.O_RDONLY)))\n"
        "for path in ('/proc', '/sys', '/dev'):\n"
        "    attempt(path, lambda: open(path + '/x', 'w').close())\n"
        "attempt('device', lambda: os.mknod('/tmp/d', stat.S_IFCHR | 0o666, os.makedev(1, 3)))\n"
        "attempt('block', lambda: os.mknod('/tmp/b', stat.S_IFBLK | 0o666, os.makedev(254, 0)))\n"
        "attempt('setuid', lambda: os.stat('/opt/tool/su').st_mode & stat.S_ISUID or os.stat('/none'))\n"
        "attempt('chroot', lambda: os.chroot('/tmp'))\n"
        "attempt('uid', lambda: os.setuid(0))\n"
        "attempt('owner', lambda: os.chown('/testbed/kept.txt', 0, 0))\n"
        "if libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0: found.append('mount')\n"
        "if libc.unshare(0x10000000) == 0: found.append('unshare')\n"
        "if libc.umount2(b'/dev', 2) == 0: found.append('umount')\n"
        "attempt('net', lambda: socket.create_connection(('1.1.1.1', 53), 1))\n"
        "attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))\n"
        "print(found)\n"
    )
    assert await lab.must(id, source) == "[]\n"
    up = "import os\nfor _ in range(50): os.chdir('..')\nprint(sorted(os.listdir('.')) == sorted(os.listdir('/')))"
    assert await lab.must(id, up) == "True\n"


@case(Level.L2)
async def what_it_writes_is_bounded_and_counted(lab: Lab) -> None:
    id = await of_image(lab)
    done = await lab.run(
        id, ("bash", "-c", "while cat /usr/bin/bash >> /root/fill; do :; done; cat /usr/bin/bash > /opt/x")
    )
    assert not done.passed
    assert LIMITS.disk_bytes - MIB < done.exit.usage.disk_bytes <= LIMITS.disk_bytes + 8 * MIB
    other = await of_image(lab)
    assert await sh(lab, other, "ls /root") == ""


@case(Level.L2)
async def an_image_runs_in_place_of_nothing_of_ours(lab: Lab) -> None:
    """What moves files and starts programs is never the image's, whatever a program has made of it."""
    id = await of_image(lab)
    spoil = "files=$(find / -xdev -name 'libc.so*' -o -xdev -name 'ld-linux*'); rm -rf /usr/lib/python3*"
    await sh(lab, id, f"{spoil}; for one in $files; do echo x > $one; done; echo done > /testbed/kept.txt")
    found = await lab.read(id, "testbed/kept.txt")
    assert found["testbed/kept.txt"].size == 5
    assert "testbed/kept.txt" in await changed(lab, id, "testbed")
    done = await lab.run(id, ("no-such-program",))
    assert (done.exit.status, "No such file" in done.exit.reason) == (127, True), done


@case(Level.L2)
async def an_image_that_is_not_there_says_how_to_give_it(lab: Lab) -> None:
    absent = await lab.refuses(lab.new(runtime="other/app:2"), Unimplemented)
    for words in ("other/app:2", NAME, "docker save", "RATCHET_SANDBOX_IMAGES", "nothing.tar"):
        assert words in absent.message, absent.message
    broken = await lab.refuses(lab.new(runtime="cases/broken:1"), FailedPrecondition)
    assert "leads out" in broken.message, broken.message


@case(Level.L2)
async def what_is_no_more_given_goes(lab: Lab) -> None:
    """Once no workspace has it, and another is unpacked."""
    given = [images.save(IMAGES / f"{name}.tar", f"{name}:1", [images.layer([entry(name, b"x")])]) for name in "ab"]
    unpacked = IMAGES / ".unpacked"
    first = await lab.new(runtime="a:1")
    before = set(os.listdir(unpacked))
    given[0].unlink()
    await lab.new(runtime="b:1")
    assert before < set(os.listdir(unpacked))  # somebody has it
    await lab.workspaces.delete(first, "me")
    (unpacked / f"{os.geteuid()}-unfinished-1-gone").mkdir()
    given[1].unlink()
    images.save(IMAGES / "c.tar", "c:1", [images.layer([entry("c", b"x")])])
    await lab.new(runtime="c:1")
    left = set(os.listdir(unpacked))
    assert len(left - before) == 2, left  # b, which somebody has, and c
    assert len(before - left) == 1, left
    (IMAGES / "c.tar").unlink()


@case()
async def below_l2_there_are_none(lab: Lab) -> None:
    if lab.level is Level.L1:
        refused = await lab.refuses(lab.new(runtime=NAME), FailedPrecondition)
        assert "namespaces" in refused.message
