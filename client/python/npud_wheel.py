"""
What pip calls to make a wheel of this tree (PEP 517): the module acl with its stubs, as make builds
them, and libaclclient, in a folder where the module looks for it first. BUILD in the environment is
the build folder, as for make.
"""
import base64
import glob
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import zipfile

NAME = "acl_npud"
SUMMARY = "AscendCL for Python on npud: NPU devices, simulated or shared, for every process"


class UnsupportedOperation(Exception):
    """The name that PEP 517 has for what a backend does not do."""


def version():
    with open("Makefile", encoding="utf-8") as f:
        return re.search(r"^VERSION := (.*)$", f.read(), re.MULTILINE)[1]


def tag():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{re.sub('[-.]', '_', sysconfig.get_platform())}"


def build():
    """{name in the wheel: file}, built for the Python that runs this."""
    folder = os.environ.get("BUILD", "build")
    built = os.path.join(folder, "python3", "dist-packages")
    config = os.path.join(sys.base_prefix, "bin", "python{}.{}-config".format(*sys.version_info))
    if not os.path.exists(config):
        raise FileNotFoundError(f"{config}: acl is built with the headers of this Python; "
                                "for that of Debian, install python3-dev")
    subprocess.run(["make", "--no-print-directory", "python", f"PY_CONFIG={config}"], check=True)
    module = "acl" + sysconfig.get_config_var("EXT_SUFFIX")
    files = {module: os.path.join(built, module),
             f"{NAME}.libs/libaclclient.so.1": os.path.join(folder, "libaclclient.so.1")}
    for path in sorted(glob.glob(os.path.join(built, "acl-stubs", "*"))):
        files["acl-stubs/" + os.path.basename(path)] = path
    return files


def metadata():
    """{name in the folder dist-info: text}"""
    return {
        "METADATA": f"Metadata-Version: 2.1\nName: acl-npud\nVersion: {version()}\n"
                    f"Summary: {SUMMARY}\nRequires-Python: >=3.10\n",
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: npud\nRoot-Is-Purelib: false\nTag: {tag()}\n",
    }


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    wheel = f"{NAME}-{version()}-{tag()}.whl"
    info = f"{NAME}-{version()}.dist-info"
    record = ""
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as out:
        def add(name, data):
            nonlocal record
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
            # Without the time of the build: two builds are the same byte by byte.
            out.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)

        for name, path in build().items():
            with open(path, "rb") as f:
                add(name, f.read())
        for name, text in metadata().items():
            add(f"{info}/{name}", text.encode())
        record += f"{info}/RECORD,,\n"
        out.writestr(zipfile.ZipInfo(f"{info}/RECORD"), record)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("a source archive of npud is one of its tree: git archive")
