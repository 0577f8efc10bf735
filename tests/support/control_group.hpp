// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A control group of the kernel that limits the memory of a test's child.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include <unistd.h>

#include <cuota/runtime/host_memory.hpp>

namespace support {

/// A group below the process's own one, removed by the destructor. is_made() is false in a process that may not make one.
class control_group {
public:
    explicit control_group(std::size_t limit) {
        for (bool const is_v2 : {true, false}) {
            cuota::detail::cgroup_place const here = cuota::detail::cgroup_of_process("", is_v2);
            if (here.mount.empty()) continue;
            path_ = here.mount + here.process + "/cuota-test-" + std::to_string(::getpid());
            std::error_code refused;
            if (std::filesystem::create_directory(path_, refused) &&
                write(is_v2 ? "memory.max" : "memory.limit_in_bytes", limit))
                return;
            std::filesystem::remove(path_, refused);
        }
        path_.clear();
    }
    control_group(control_group const&) = delete;
    control_group& operator=(control_group const&) = delete;
    ~control_group() {
        std::error_code ignored;
        if (is_made()) std::filesystem::remove(path_, ignored);
    }

    [[nodiscard]] bool is_made() const noexcept { return !path_.empty(); }
    [[nodiscard]] std::string const& path() const noexcept { return path_; }

    /// Runs a shell command in the group and returns its wait status.
    [[nodiscard]] int status_of(std::string const& command) const {
        return std::system(("echo $$ > '" + path_ + "/cgroup.procs' && " + command).c_str());
    }

private:
    [[nodiscard]] bool write(char const* name, std::size_t number) const {
        std::ofstream out{path_ + '/' + name, std::ios::in};  // never created: it must be the kernel's
        out << number;
        out.flush();
        return out.good();
    }

    std::string path_;
};

}  // namespace support
