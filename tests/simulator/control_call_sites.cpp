// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/process.hpp"

#include <filesystem>
#include <sstream>

#include "support/temp_folder.hpp"

using namespace control;

namespace {

std::filesystem::path installed(std::string const& program) {
    char const* const folders = std::getenv("PATH");
    std::istringstream in{folders ? folders : ""};
    for (std::string folder; std::getline(in, folder, ':');)
        if (auto const path = std::filesystem::path{folder} / program; std::filesystem::exists(path))
            return path;
    return {};
}

}  // namespace

TEST_CASE("lines of call sites come from llvm-addr2line or addr2line, and without both sites are addresses",
          "[simulator][call_sites]") {
    if (std::getenv("CUOTA_PLANTED")) {
        auto* const p = device_memory(16);
        CHECK(cudaFree(p) == cudaSuccess);
        CHECK(cudaFree(p) == cudaErrorInvalidValue);
        for (std::string const& line : sim::misuse_reports()) std::printf("%s\n", line.c_str());
        return;
    }
    std::string const program = GENERATE("llvm-addr2line", "addr2line", "");
    support::temp_folder const folder;
    if (!program.empty()) {
        auto const path = installed(program);
        if (path.empty()) CUOTA_SKIP(program + " is not installed");
        std::filesystem::create_symlink(path, folder.path(program));
    }
    auto const r = run_again(
        "CUOTA_PLANTED=1 CUOTA_SIM_MISUSE=report PATH='" + folder.path() + "'",
        "lines of call sites come from llvm-addr2line or addr2line, and without both sites are addresses");
    INFO(program << ": " << r.text);
    CHECK((r.text.find("cudaFree at control_call_sites.cpp:") == std::string::npos) == program.empty());
    CHECK((r.text.find("cudaFree at test-simulator+0x") == std::string::npos) == !program.empty());
}
