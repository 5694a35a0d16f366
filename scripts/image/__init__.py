"""The container image, built without a daemon and without a registry: `make image`.

rootfs    the filesystem: this machine's Python, the locked libraries, Ebbtide, and the C libraries they load
sbom      what is in it, as CycloneDX
layout    the filesystem as an OCI image layout, the same bytes for the same filesystem
"""
