"""What the guest boots: Debian's kernel, a disk with Debian's DPDK, and an initramfs with the program to be tested."""
import os
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = "busybox-static,kmod,python3-minimal,libpython3-stdlib,dpdk,librte-meta-all"
# Needed before there is a disk.
MODULES = ("virtio_pci", "virtio_blk", "ext4")
SOURCES = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")

INIT = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for module in /modules/*.ko; do /bin/busybox insmod $module; done
until [ -b /dev/vda ]; do /bin/busybox sleep 0.05; done
/bin/busybox mount -t ext4 -o noatime /dev/vda /root
for file in guest-init agent.py weir; do /bin/busybox cp -p /$file /root/$file; done
/bin/busybox umount /dev
exec /bin/busybox switch_root /root /guest-init
"""


def sh(*command, **options):
    """Output of a command; what it said is part of the error if it fails."""
    done = subprocess.run(command, text=True, capture_output=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def download(package, cache):
    """The package's file, fetched and not installed."""
    folder = os.path.join(cache, "download")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    sh("apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package, cwd=folder)
    return os.path.join(folder, os.listdir(folder)[0])


def make_disk(cache):
    """Kernel, its modules and the disk, in `cache`, unless they are there: some minutes."""
    disk = os.path.join(cache, "disk")
    if os.path.exists(disk):
        return
    os.makedirs(cache, exist_ok=True)
    root, kernel = os.path.join(cache, "root"), os.path.join(cache, "kernel")
    for folder in (root, kernel):
        shutil.rmtree(folder, ignore_errors=True)
    depends = sh("apt-cache", "depends", "linux-image-amd64")
    package = next(line.split()[1] for line in depends.splitlines() if "Depends:" in line)
    sh("dpkg-deb", "-x", download(package, cache), kernel)
    version = os.listdir(os.path.join(kernel, "lib/modules"))[0]
    shutil.copy(os.path.join(kernel, "boot", f"vmlinuz-{version}"), os.path.join(cache, "vmlinuz"))
    sources = next(file for file in SOURCES if os.path.exists(file))
    release = sh("sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME").strip()
    # What it mounts goes with it, however it ends: the folder is removed.
    sh("unshare", "--mount", "mmdebstrap", "--variant=apt", "--mode=root", '--aptopt=APT::Install-Recommends "false"',
       "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
       "--dpkgopt=path-exclude=/usr/share/locale/*", f"--include={PACKAGES}", release, root, sources)
    modules = os.path.join(cache, "modules")
    shutil.rmtree(modules, ignore_errors=True)
    keep = os.path.join(modules, "lib/modules", version)
    shutil.copytree(os.path.join(kernel, "lib/modules", version), keep, symlinks=True,
                    ignore=lambda folder, names: [n for n in names if n in ("sound", "gpu", "media", "wireless", "staging")])
    sh("depmod", "-b", modules, version)
    sh("sh", "-c", f"mkdir -p {root}/lib/modules && cp -a {keep} {root}/lib/modules/")
    sh("truncate", "-s", "2G", disk + ".new")
    sh("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal,^metadata_csum", "-m", "0", "-d", root, disk + ".new")
    for folder in (root, kernel, os.path.join(cache, "download")):
        shutil.rmtree(folder)
    os.rename(disk + ".new", disk)


def make_initramfs(cache, weir):
    """The initramfs; it is made anew each time, since the program changes."""
    modules = os.path.join(cache, "modules")
    version = os.listdir(os.path.join(modules, "lib/modules"))[0]
    files = []
    for module in MODULES:
        for line in sh("modprobe", "-d", modules, "-S", version, "--show-depends", module).splitlines():
            word = line.split()
            if word[0] == "insmod" and word[1] not in files:
                files.append(word[1])
    initramfs = os.path.join(cache, "initramfs.gz")
    new = f"{initramfs}.{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="weir-nic.") as top:
        for folder in ("bin", "modules", "dev", "root"):
            os.makedirs(os.path.join(top, folder))
        shutil.copy(shutil.which("busybox"), os.path.join(top, "bin/busybox"))
        for i, file in enumerate(files):
            shutil.copy(file, os.path.join(top, "modules", f"{i:02}-{os.path.basename(file)}"))
        for file in ("guest-init", "agent.py"):
            shutil.copy(os.path.join(HERE, file), top)
        with open(os.path.join(top, "init"), "w", encoding="ascii") as out:
            out.write(INIT)
        for file in ("init", "guest-init"):
            os.chmod(os.path.join(top, file), 0o755)
        sh("strip", "-o", os.path.join(top, "weir"), weir)
        sh("sh", "-c", f"cd {top} && find . | cpio -o -H newc 2>/dev/null | gzip -1 >{new}")
    # Another run may be starting a guest with the last one.
    os.rename(new, initramfs)
