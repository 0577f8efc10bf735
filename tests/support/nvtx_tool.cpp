// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// An NVTX tool inside the test program. NVTX finds it by a symbol, as it finds a profiler's library by the path in NVTX_INJECTION64_PATH.
// Each call becomes a line of text.
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#if __has_include(<nvtx3/nvToolsExtCounters.h>) && __has_include(<nvtx3/nvToolsExtSemanticsCounters.h>)
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>
#endif

#include "support/nvtx_tool.hpp"

nvtx_listener& nvtx_tool = *new nvtx_listener;  // not destroyed: NVTX may be called during static destruction

namespace {

// Handles are indices, counted from 1.
std::string domain_name(nvtxDomainHandle_t domain) {
    auto const index = reinterpret_cast<std::uintptr_t>(domain);
    return index == 0 ? "default" : nvtx_tool.domains[index - 1];
}
std::string words_of(nvtxDomainHandle_t domain, char const* what, nvtxEventAttributes_t const* a) {
    std::string text = domain_name(domain) + ' ' + what + ' ';
    if (a->version != NVTX_VERSION || a->size != NVTX_EVENT_ATTRIB_STRUCT_SIZE)
        return text + "of no known size";
    if (a->messageType == NVTX_MESSAGE_TYPE_ASCII) text += a->message.ascii;
    if (a->messageType == NVTX_MESSAGE_TYPE_REGISTERED)
        text += '#' + nvtx_tool.strings[reinterpret_cast<std::uintptr_t>(a->message.registered) - 1];
    if (a->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64) text += ' ' + std::to_string(a->payload.ullValue);
    if (a->colorType == NVTX_COLOR_ARGB) text += " in color";
    return text;
}

nvtxDomainHandle_t create_domain(char const* name) {
    nvtx_tool.domains.push_back(name);
    return reinterpret_cast<nvtxDomainHandle_t>(nvtx_tool.domains.size());
}
nvtxStringHandle_t register_string(nvtxDomainHandle_t, char const* text) {
    nvtx_tool.strings.push_back(text);
    return reinterpret_cast<nvtxStringHandle_t>(nvtx_tool.strings.size());
}
void tool_mark(nvtxDomainHandle_t d, nvtxEventAttributes_t const* a) {
    nvtx_tool.told(words_of(d, "mark", a));
}
int tool_push(nvtxDomainHandle_t d, nvtxEventAttributes_t const* a) {
    nvtx_tool.told(words_of(d, "push", a));
    return 0;
}
int tool_pop(nvtxDomainHandle_t d) {
    nvtx_tool.told(domain_name(d) + " pop");
    return 0;
}
nvtxRangeId_t tool_start(nvtxDomainHandle_t d, nvtxEventAttributes_t const* a) {
    nvtx_tool.told(words_of(d, "start", a));
    return ++nvtx_tool.ranges;
}
void tool_end(nvtxDomainHandle_t d, nvtxRangeId_t id) {
    nvtx_tool.told(domain_name(d) + " end " + std::to_string(id));
}

template <class Function>
void attach(NvtxFunctionTable table, unsigned size, unsigned id, Function* function) {
    if (id < size) *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}
int attach_tool(NvtxGetExportTableFunc_t get_table) {
    auto const* const callbacks =
        static_cast<NvtxExportTableCallbacks const*>(get_table(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable table = nullptr;
    unsigned size = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
    attach(table, size, NVTX_CBID_CORE2_DomainCreateA, create_domain);
    attach(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
    attach(table, size, NVTX_CBID_CORE2_DomainMarkEx, tool_mark);
    attach(table, size, NVTX_CBID_CORE2_DomainRangePushEx, tool_push);
    attach(table, size, NVTX_CBID_CORE2_DomainRangePop, tool_pop);
    attach(table, size, NVTX_CBID_CORE2_DomainRangeStartEx, tool_start);
    attach(table, size, NVTX_CBID_CORE2_DomainRangeEnd, tool_end);
    return 1;
}

#ifdef NVTX_COUNTER_API_FUNCTIONS_V1
std::uint64_t register_counter(nvtxDomainHandle_t d, nvtxCounterAttr_t const* a) {
    auto const* const unit = reinterpret_cast<nvtxSemanticsCounter_t const*>(a->semantics);
    nvtx_tool.told(domain_name(d) + " counter " + a->name + " in " + unit->unit);
    return 77;
}
void sample_counter(nvtxDomainHandle_t d, std::uint64_t id, std::int64_t value) {
    nvtx_tool.told(domain_name(d) + " sample " + std::to_string(id) + ' ' + std::to_string(value));
}
int attach_extension(nvtxExtModuleInfo_t* module) {
    if (module->moduleId != NVTX_EXT_COUNTERS_MODULEID) return 0;
    std::intptr_t* const slots = module->segments[0].functionSlots;
    slots[NVTX3EXT_CBID_nvtxCounterRegister] = reinterpret_cast<std::intptr_t>(&register_counter);
    slots[NVTX3EXT_CBID_nvtxCounterSampleInt64] = reinterpret_cast<std::intptr_t>(&sample_counter);
    return 1;
}
#endif

}  // namespace

extern "C" {
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = attach_tool;
#ifdef NVTX_COUNTER_API_FUNCTIONS_V1
NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr = attach_extension;
#endif
}
