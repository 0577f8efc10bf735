// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/host_memory.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include <unistd.h>

#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/temp_folder.hpp"

using cuota::host_memory;
using cuota::host_memory_info;
using cuota::unlimited;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kib = 1'024;

// A machine's files, in a folder.
class files {
public:
    files() {
        write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n"
                              "Buffers:          50 kB\nCached:          350 kB\n");
    }
    void write(std::string const& name, std::string const& text) const {
        fs::create_directories(fs::path{folder_.path(name)}.parent_path());
        folder_.write(name, text);
    }
    void remove(std::string const& name) const { fs::remove_all(folder_.path(name)); }

    // Version 2, as on a host: the whole tree is mounted.
    void use_v2(std::string const& process, std::string const& top = "/") const {
        write("proc/self/cgroup", "0::" + process + "\n");
        write("proc/self/mountinfo", "24 30 0:22 / /proc rw - proc proc rw\n"
                                     "31 24 0:27 " +
                                         top + " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
    }
    void use_v1(std::string const& process) const {
        write("proc/self/cgroup", "12:cpu,cpuacct:/\n5:memory:" + process + "\n0::/init\n");
        write("proc/self/mountinfo",
              "33 32 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
              "36 32 0:33 / /sys/fs/cgroup/memory rw shared:3 - cgroup cgroup rw,memory\n");
    }
    void group(std::string const& path, std::string const& max, std::string const& current,
               std::string const& stat = "anon 5\n") const {
        write("sys/fs/cgroup" + path + "/memory.max", max + "\n");
        write("sys/fs/cgroup" + path + "/memory.current", current + "\n");
        write("sys/fs/cgroup" + path + "/memory.stat", stat);
    }
    [[nodiscard]] host_memory_info read() const { return host_memory(folder_.path()); }

private:
    support::temp_folder folder_;
};

// A control group below that of this process, with a limit. None if the system does not permit it.
class real_group {
public:
    explicit real_group(std::size_t limit) {
        for (bool const is_v2 : {false, true}) {
            auto const own = cuota::detail::cgroup_of_process({}, is_v2);
            if (own.mount.empty()) continue;
            fs::path const path = own.mount + own.process + "/cuota-test-" + std::to_string(::getpid());
            std::error_code failure;
            if (!fs::create_directory(path, failure)) continue;
            path_ = path;
            if (write(is_v2 ? "memory.max" : "memory.limit_in_bytes", std::to_string(limit))) return;
            remove();
        }
    }
    real_group(real_group const&) = delete;
    real_group& operator=(real_group const&) = delete;
    ~real_group() { remove(); }

    [[nodiscard]] explicit operator bool() const noexcept { return !path_.empty(); }
    [[nodiscard]] bool enter() const { return write("cgroup.procs", std::to_string(::getpid())); }
    [[nodiscard]] std::string path() const { return path_.string(); }

private:
    [[nodiscard]] bool write(char const* file, std::string const& text) const {
        std::ofstream to{path_ / file};
        return bool{to << text << std::flush};
    }
    void remove() {
        if (!path_.empty()) ::rmdir(path_.c_str());
        path_.clear();
    }
    fs::path path_;
};

}  // namespace

TEST_CASE("the host's memory is what the kernel estimates", "[runtime][host_memory]") {
    files const machine;
    host_memory_info const found = machine.read();
    CHECK(found.total == 1'000 * kib);
    CHECK(found.available == 600 * kib);
    CHECK(found.bounded_by.empty());
    CHECK(found.ignored.empty());
}

TEST_CASE("this machine has memory", "[runtime][host_memory]") {
    host_memory_info const found = host_memory();
    CHECK(found.total > (std::size_t{64} << 20));
    CHECK(found.available > 0);
    CHECK(found.available <= found.total);
    CHECK(found.ignored.empty());
}

TEST_CASE("a control group of this machine bounds the memory of a process in it", "[runtime][host_memory]") {
    constexpr std::size_t limit = std::size_t{64} << 20;
    real_group const group{limit};
    if (!group) CUOTA_SKIP("this process may not create a control group that limits memory");
    CHECK(support::status_of_child([&] {
              if (!group.enter()) ::_exit(2);
              host_memory_info const found = host_memory();
              bool const is_right = found.total == limit && found.available <= limit &&
                                    found.available > limit / 2 && found.bounded_by == group.path() &&
                                    found.ignored.empty();
              ::_exit(is_right ? 0 : 3);
          }) == 0);
}

TEST_CASE("a control group bounds the host's memory by its limit less its use", "[runtime][host_memory]") {
    files const machine;
    machine.use_v2("/app");
    SECTION("page cache and slabs that can be dropped are not in use") {
        machine.group("/app", "409600", "307200",
                      "anon 1\nfile 9\ninactive_file 102400\nactive_file 51200\nslab_reclaimable 10240\n");
        host_memory_info const found = machine.read();
        CHECK(found.total == 400 * kib);
        CHECK(found.available == (400 - 300 + 100 + 50 + 10) * kib);
        CHECK(found.bounded_by == "/sys/fs/cgroup/app");
        CHECK(found.ignored.empty());
    }
    SECTION("unless the machine has less") {
        machine.group("/app", "921600", "0");
        host_memory_info const found = machine.read();
        CHECK(found.total == 900 * kib);
        CHECK(found.available == 600 * kib);
        CHECK(found.bounded_by.empty());
    }
    SECTION("without a limit it does not") {
        machine.group("/app", "max", "307200");
        CHECK(machine.read().available == 600 * kib);
        CHECK(machine.read().total == 1'000 * kib);
    }
    SECTION("memory.high bounds it as well, because above it the process is slowed down") {
        machine.group("/app", "max", "102400");
        machine.write("sys/fs/cgroup/app/memory.high", "204800\n");
        CHECK(machine.read().available == 100 * kib);
        CHECK(machine.read().total == 200 * kib);
    }
    SECTION("more use than the limit leaves nothing") {
        machine.group("/app", "4096", "409600");
        CHECK(machine.read().available == 0);
        CHECK(machine.read().total == 4 * kib);
    }
    SECTION("a limit of 0 leaves nothing") {
        machine.group("/app", "0", "0");
        CHECK(machine.read().available == 0);
        CHECK(machine.read().total == 0);
    }
}

TEST_CASE("each control group above the process's counts", "[runtime][host_memory]") {
    files const machine;
    machine.use_v2("/pod/app/worker");
    machine.group("/pod/app/worker", "max", "0");
    machine.group("/pod/app", "512000", "102400");
    machine.group("/pod", "409600", "307200");
    host_memory_info const found = machine.read();
    CHECK(found.total == 400 * kib);
    CHECK(found.available == 100 * kib);
    CHECK(found.bounded_by == "/sys/fs/cgroup/pod");
}

TEST_CASE("in a container, the mounted group is the top", "[runtime][host_memory]") {
    files const machine;
    SECTION("with a namespace of control groups") {
        machine.use_v2("/");
        machine.group("", "204800", "102400");
        CHECK(machine.read().available == 100 * kib);
        CHECK(machine.read().bounded_by == "/sys/fs/cgroup");
    }
    SECTION("without one, where paths are the host's") {
        machine.use_v2("/docker/abc/inner", "/docker/abc");
        machine.group("", "204800", "0");
        machine.group("/inner", "102400", "51200");
        CHECK(machine.read().available == 50 * kib);
        CHECK(machine.read().total == 100 * kib);
    }
    SECTION("and groups that are not mounted cannot be seen") {
        machine.use_v2("/docker/abcdef", "/docker/abc");
        machine.group("", "204800", "0");
        CHECK(machine.read().available == 200 * kib);
        machine.use_v2("/../../other");
        CHECK(machine.read().available == 200 * kib);
    }
}

TEST_CASE("control groups of version 1 bound it too", "[runtime][host_memory]") {
    files const machine;
    machine.use_v1("/docker/abc");
    auto const group = [&](std::string const& path, std::string const& limit, std::string const& use) {
        machine.write("sys/fs/cgroup/memory" + path + "/memory.limit_in_bytes", limit + "\n");
        machine.write("sys/fs/cgroup/memory" + path + "/memory.usage_in_bytes", use + "\n");
        machine.write("sys/fs/cgroup/memory" + path + "/memory.stat",
                      "cache 1\ninactive_file 7\ntotal_inactive_file 51200\ntotal_active_file 10240\n");
    };
    group("", "9223372036854771712", "614400");
    group("/docker", "9223372036854771712", "614400");
    group("/docker/abc", "409600", "307200");
    host_memory_info const found = machine.read();
    CHECK(found.total == 400 * kib);
    CHECK(found.available == (100 + 50 + 10) * kib);
    CHECK(found.bounded_by == "/sys/fs/cgroup/memory/docker/abc");
}

TEST_CASE("a file that cannot be used is named, and the next best source replaces it",
          "[runtime][host_memory]") {
    files const machine;
    machine.use_v2("/app");
    SECTION("MemAvailable") {
        machine.write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 50 kB\nCached: 350 kB\n");
        CHECK(machine.read().available == 500 * kib);
        CHECK(machine.read().ignored == "/proc/meminfo has no MemAvailable");
    }
    SECTION("MemAvailable without a number") {
        machine.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: much\nMemFree: 100 kB\n");
        CHECK(machine.read().available == 100 * kib);
    }
    SECTION("more available than there is") {
        machine.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 2000 kB\n");
        CHECK(machine.read().available == 1'000 * kib);
    }
    SECTION("no memory at all") {
        machine.write("proc/meminfo", "MemTotal: 0 kB\nMemAvailable: 0 kB\n");
        CHECK(machine.read().total > 1'000 * kib);  // of this machine
        CHECK(machine.read().ignored == "/proc/meminfo has no valid MemTotal and MemFree");
    }
    SECTION("meminfo") {
        machine.remove("proc/meminfo");
        CHECK(machine.read().total > 1'000 * kib);
        CHECK(machine.read().ignored == "/proc/meminfo cannot be read");
    }
    SECTION("a limit without a number") {
        machine.group("/app", "lots", "0");
        CHECK(machine.read().available == 600 * kib);
        CHECK(machine.read().ignored == "/sys/fs/cgroup/app/memory.max has no number");
    }
    SECTION("a negative limit") {
        machine.group("/app", "-1", "0");
        CHECK(machine.read().available == 600 * kib);
        CHECK(machine.read().ignored == "/sys/fs/cgroup/app/memory.max has no number");
    }
    SECTION("the use of a group") {
        machine.group("/app", "204800", "0");
        machine.remove("sys/fs/cgroup/app/memory.current");
        CHECK(machine.read().available == 200 * kib);
        CHECK(machine.read().ignored == "/sys/fs/cgroup/app/memory.current cannot be read");
    }
    SECTION("the use without a number") {
        machine.group("/app", "204800", "?");
        CHECK(machine.read().available == 200 * kib);
        CHECK(machine.read().ignored == "/sys/fs/cgroup/app/memory.current has no number");
    }
    SECTION("statistics, without which all is in use") {
        machine.group("/app", "204800", "102400");
        machine.remove("sys/fs/cgroup/app/memory.stat");
        CHECK(machine.read().available == 100 * kib);
    }
    SECTION("mounts, without which no group is known") {
        machine.group("/app", "204800", "0");
        machine.write("proc/self/mountinfo", "31 24 0:27\nnonsense\n\n1 2 3 4 5 6 7 8 9 10\n");
        CHECK(machine.read().available == 600 * kib);
    }
}

TEST_CASE("a mount point with a space is unescaped", "[runtime][host_memory]") {
    files const machine;
    machine.write("proc/self/cgroup", "0::/\n");
    machine.write("proc/self/mountinfo", "31 24 0:27 / /sys\\040fs/cgroup rw - cgroup2 cgroup2 rw\n");
    machine.write("sys fs/cgroup/memory.max", "4096");
    machine.write("sys fs/cgroup/memory.current", "0");
    CHECK(machine.read().available == 4'096);
}

TEST_CASE("numbers of files", "[runtime][host_memory]") {
    auto const number = [](char const* text, char const* key = "") -> std::optional<std::size_t> {
        std::size_t found = 0;
        if (!cuota::detail::number_after(text, key, found)) return std::nullopt;
        return found;
    };
    CHECK(number("17\n") == 17u);
    CHECK(number("  17 kB") == 17u);
    CHECK(number("0") == 0u);
    CHECK(number("max\n") == unlimited);
    CHECK(number("9223372036854771712") == unlimited);
    CHECK(number("99999999999999999999999999") == unlimited);
    CHECK(!number(""));
    CHECK(!number("\n"));
    CHECK(!number("-1"));
    CHECK(!number("12x"));
    CHECK(!number("maximal"));
    CHECK(number("a 1\nbb 2\nb 3", "b ") == 3u);
    CHECK(!number("ab 3", "b "));
}
