# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""conan create . -s compiler.cppstd=20

Packages what `cmake --install` does, with the same config file for CMake: cuota_link and the simulated runtime come with
it. The CUDA Toolkit is the user's own, and no part of this.
"""
import pathlib
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy

required_conan_version = ">=2.0"


class CuotaRecipe(ConanFile):
    name = "cuota"
    description = "CUDA memory safety, header-only"
    license = "Apache-2.0"
    topics = ("cuda", "gpu", "memory", "allocator", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    exports_sources = "include/*", "CMakeLists.txt", "packaging/cmake/*", "LICENSE"
    no_copy_source = True

    def set_version(self):
        text = (pathlib.Path(self.recipe_folder) / "include" / "cuota" / "version.hpp").read_text()
        self.version = ".".join(re.findall(r"^#define CUOTA_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", text, flags=re.M))

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def package_id(self):
        self.info.clear()  # one package for all compilers and build types

    def generate(self):
        toolchain = CMakeToolchain(self)
        for what in ("TESTS", "EXAMPLES", "BENCH"):
            toolchain.cache_variables[f"CUOTA_BUILD_{what}"] = False
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, pathlib.Path(self.package_folder) / "licenses")

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        # Ours, not one that Conan makes up: that would know neither cuota_link nor C++20 for nvcc.
        self.cpp_info.builddirs = ["share/cmake/cuota"]
        self.cpp_info.set_property("cmake_find_mode", "none")
