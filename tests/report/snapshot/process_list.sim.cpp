// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/snapshot/process_list.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/fake_nvml.hpp"

using cuota::nvml_process;
using cuota::other_programs_text;

namespace {

using process_answer = cuota::nvml_result<std::vector<nvml_process>>;

constexpr std::size_t mib = std::size_t{1} << 20;

}  // namespace

TEST_CASE("other_programs_text names other programs that hold memory, but not this one",
          "[report][process_list]") {
    std::vector<nvml_process> all{
        {4711, 3000 * mib, "python3", false}, {1, 9000 * mib, "self", true}, {812, 204 * mib, "Xorg", false}};
    CHECK(other_programs_text(process_answer{all}) ==
          "other programs 3.1 GiB: python3 (4711) 2.9 GiB, Xorg (812) 204.0 MiB");
    CHECK(other_programs_text(process_answer{all}, 1) ==
          "other programs 3.1 GiB: python3 (4711) 2.9 GiB and 1 more");
    all[2].bytes.reset();
    CHECK(other_programs_text(process_answer{all}) ==
          "other programs at least 2.9 GiB: python3 (4711) 2.9 GiB, Xorg (812) of unknown size");
    CHECK(other_programs_text(process_answer{{{7, {}, "", false}}}) ==
          "other programs process (7) of unknown size");
    CHECK(other_programs_text(process_answer{{{7, mib, "a\nb", false}}}) ==
          "other programs 1.0 MiB: a?b (7) 1.0 MiB");
}

TEST_CASE("other_programs_text distinguishes no other program from an unknown answer, with the reason",
          "[report][process_list]") {
    CHECK(other_programs_text(process_answer{{}}) == "no other program uses it");
    CHECK(other_programs_text(process_answer{{{1, mib, "self", true}}}) == "no other program uses it");
    CHECK(other_programs_text(process_answer::unknown("no library")) == "other programs unknown: no library");
    CHECK(other_programs_text(cuota::device{0}) == "other programs unknown: the device is simulated");
}

TEST_CASE("other_programs_text finds a device by its PCI address", "[report][process_list]") {
    fake_nvml = {};
    fake_nvml.compute = {{4'000'000'001U, mib, 0, 0}};
    CHECK(other_programs_text(cuota::device{0}, cuota::nvml{}) ==
          "other programs 1.0 MiB: process (4000000001) 1.0 MiB");
    fake_nvml.pci = "00000000:02:00.0";
    CHECK(other_programs_text(cuota::device{0}, cuota::nvml{}) ==
          "other programs unknown: nvmlDeviceGetHandleByPciBusId_v2 failed: Not Found");
    CHECK_THROWS_AS(other_programs_text(cuota::device{99}, cuota::nvml{}), cuota::cuda_error);
    fake_nvml = {};
}
