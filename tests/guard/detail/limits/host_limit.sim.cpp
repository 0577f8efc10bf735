// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/limits/host_limit.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/wait.h>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/pageable_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/resource/registered_memory.hpp>
#include <cuota/runtime/host_memory.hpp>

#include "support/catch.hpp"
#include "support/control_group.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_folder.hpp"
#include "support/this_program.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using namespace std::chrono_literals;
using cuota::budget;

namespace {

// The files of a container with 1 GiB on a machine with 16.
class container {
public:
    container() {
        write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
        write("proc/self/cgroup", "0::/\n");
        write("proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        write("sys/fs/cgroup/memory.max", "1073741824\n");
        uses(0);
    }
    void write(std::string const& name, std::string const& text) const {
        std::filesystem::create_directories(std::filesystem::path{folder_.path(name)}.parent_path());
        folder_.write(name, text);
    }
    // Bytes in use, of which `cache` are page cache.
    void uses(std::size_t bytes, std::size_t cache = 0) const {
        write("sys/fs/cgroup/memory.current", std::to_string(bytes));
        write("sys/fs/cgroup/memory.stat", "inactive_file " + std::to_string(cache) + "\n");
    }
    [[nodiscard]] std::string const& path() const { return folder_.path(); }
    [[nodiscard]] budget always_looking(double share = 1.0, std::size_t keep_free = 0) const {
        return budget::for_host(share, keep_free, 0ns, path());
    }

private:
    support::temp_folder folder_;
};

}  // namespace

TEST_CASE("a host budget has what the container has, less a margin", "[guard][host_limit]") {
    support::machine const machine;
    container const here;
    budget b = here.always_looking();
    CHECK(b.name() == "host");
    CHECK(b.limit() == 960_MiB);
    CHECK(here.always_looking(0.5).limit() == 512_MiB);
    CHECK(here.always_looking(1.0, 256_MiB).limit() == 768_MiB);
    here.uses(800_MiB, 300_MiB);
    CHECK(b.try_charge(460_MiB));
    CHECK(!b.try_charge(1));
    b.refund(460_MiB);
    here.uses(0);
    CHECK(b.try_charge(960_MiB));
    b.refund(960_MiB);
}

TEST_CASE("pinned memory that a host budget has paid for is not counted twice", "[guard][host_limit]") {
    support::machine const machine;
    container const here;
    budget const b = here.always_looking();
    cuota::budgeted<cuota::pinned_memory> memory{b};
    void* const p = memory.allocate_sync(64_MiB);
    here.uses(64_MiB);
    CHECK_FALSE(cuota::budget{b}.try_charge(961_MiB - 64_MiB));
    CHECK(b.limit() == 960_MiB);
    // Pinned memory that was not charged counts as others' memory.
    cuota::registered_memory plain;
    void* const other = plain.allocate_sync(32_MiB);
    here.uses(96_MiB);
    CHECK_FALSE(cuota::budget{b}.try_charge(900_MiB));
    CHECK(b.limit() == 928_MiB);
    plain.deallocate_sync(other, 32_MiB);
    memory.deallocate_sync(p, 64_MiB);
    CHECK(cuota::detail::taken_on_host() == 0);
}

TEST_CASE("memory that could not be pinned is not counted", "[guard][host_limit]") {
    support::machine const machine;
    cuota::simulator::fail_larger_than(1_MiB);
    CHECK_THROWS_AS(cuota::pinned_memory{}.allocate_sync(2_MiB), cuota::out_of_memory);
    CHECK(cuota::detail::taken_on_host() == 0);
    cuota::simulator::clear_faults();
    cuota::simulator::fail_call("cudaHostRegister", 1, cudaErrorMemoryAllocation);
    CHECK_THROWS_AS(cuota::registered_memory{}.allocate_sync(2_MiB), cuota::out_of_memory);
    CHECK(cuota::detail::taken_on_host() == 0);
    cuota::simulator::fail_call("cudaHostAlloc", 1, cudaErrorUnknown);
    CHECK_THROWS_AS(cuota::pinned_memory{}.allocate_sync(2_MiB), cuota::cuda_error);
    CHECK(cuota::detail::taken_on_host() == 0);
}

TEST_CASE("a refusal by a host budget has the host's figures", "[guard][host_limit]") {
    support::machine const machine;
    container const here;
    here.uses(700_MiB);
    budget const b = here.always_looking();
    cuota::budgeted<cuota::pinned_memory> memory{b};
    auto const refused = support::thrown<cuota::budget_exceeded>([&] {
        (void)memory.allocate_sync(300_MiB, 256, {"ring", {"train.cpp", 17}});
    });
    REQUIRE(refused.info().device);
    CHECK(refused.info().device->ordinal == cuota::device_info::host);
    CHECK(refused.info().device->total == 1_GiB);
    CHECK(refused.info().device->free == 324_MiB);
    CHECK(refused.info().max_fit == 260_MiB);
    INFO(refused.what());
    CHECK(support::has(refused.what(), "host (/sys/fs/cgroup)"));
    CHECK(!support::has(refused.what(), "device -1"));
}

TEST_CASE("a host budget reports a file that it cannot use", "[guard][host_limit]") {
    support::machine machine;
    container const here;
    here.write("sys/fs/cgroup/memory.max", "lots\n");
    budget const b = here.always_looking();
    CHECK(b.limit() == 7_GiB);  // 8 GiB are available to the machine's programs, less a sixteenth of 16
    std::vector<std::string> const reported = machine.errors.take();
    REQUIRE(reported.size() == 1);
    CHECK(support::has(reported[0], "/sys/fs/cgroup/memory.max has no number"));
}

TEST_CASE("a host budget refuses a share that is out of range", "[guard][host_limit]") {
    CHECK_THROWS_AS(budget::for_host(1.5), cuota::usage_error);
    CHECK_THROWS_AS(budget::for_host(-0.1), cuota::usage_error);
    CHECK_THROWS_AS(budget::for_host(0.5).record_baseline(), cuota::usage_error);
}

namespace {

constexpr std::size_t of_group = 256_MiB;

// Allocates 8 MiB of the host at a time, up to twice the group's limit. Returns the bytes allocated when it was refused.
template <class Memory>
std::size_t fill_host(Memory memory) {
    std::size_t bytes = 0;
    std::vector<void*> all;
    try {
        for (; bytes != 2 * of_group; bytes += 8_MiB) all.push_back(memory.allocate_sync(8_MiB));
    } catch (cuota::out_of_memory const&) {}
    for (void* const p : all) memory.deallocate_sync(p, 8_MiB);
    return bytes;
}

}  // namespace

TEST_CASE("fills a control group as its budget allows", "[.][fills_group_by_budget]") {
    std::string const group = std::getenv("CUOTA_GROUP");
    cuota::host_memory_info const host = cuota::host_memory();
    CHECK(host.total == of_group);
    CHECK(host.bounded_by == group);
    CHECK(host.available < of_group);
    budget const b = budget::for_host();
    std::size_t const allocated = fill_host(cuota::budgeted<cuota::pageable_memory>{b});
    CHECK(allocated > of_group / 2);  // the program itself and the margin of a sixteenth take less
    CHECK(allocated < of_group);
    CHECK(b.held() == 0);
    CHECK(fill_host(cuota::budgeted<cuota::pageable_memory>{b}) > of_group / 2);
}

TEST_CASE("fills a control group without a budget", "[.][fills_group]") {
    (void)fill_host(cuota::pageable_memory{});
}

TEST_CASE("in a real control group, a host budget refuses where the kernel would kill",
          "[guard][host_limit]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("its records take more memory than the group has");
    if (*CUOTA_EMULATOR) CUOTA_SKIP("an emulator takes memory of its own");
    support::control_group const group{of_group};
    if (!group.is_made()) CUOTA_SKIP("this process cannot make a control group that limits memory");
    auto const run = [&](char const* tag) {
        return group.status_of("CUOTA_GROUP='" + group.path() + "' exec " + support::this_program() + ' ' +
                               tag);
    };
    int const with_budget = run("'[fills_group_by_budget]'");
    CHECK(WIFEXITED(with_budget));
    CHECK(WEXITSTATUS(with_budget) == 0);
    int const without = run("'[fills_group]' > /dev/null");
    CHECK(WIFSIGNALED(without));  // or else the kernel did not enforce the limit, and the test shows nothing
}
