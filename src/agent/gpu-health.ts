/**
 * Whether a GPU is fit to be sold, from what the driver says of it and from what it wrote into the kernel's log. The
 * rule: what corrupts a tenant's work, or needs a reset before it can be trusted, is sick. Errors that the hardware has
 * corrected, and rows that were remapped in time, are ordinary wear: the H200 of our fixture has some of both.
 */
import { findElement, type XmlElement } from './xml.ts'

/** A sentence for each thing that is wrong; none: it is well. */
export function ailmentsOf(gpu: XmlElement): string[] {
  return [
    ...lostWords(gpu),
    ...uncorrected(gpu),
    ...saysYes(gpu, ['ecc_errors', 'aggregate', 'sram_threshold_exceeded'], 'too many of its SRAM cells have failed'),
    ...saysYes(gpu, ['ecc_errors', 'unrepairable_memory'], 'it has memory that cannot be repaired'),
    ...saysYes(gpu, ['ecc_errors', 'channel_repair_pending'], 'a repair of a memory channel waits for a reset'),
    ...saysYes(gpu, ['ecc_errors', 'tpc_repair_pending'], 'a repair of its cores waits for a reset'),
    ...saysYes(gpu, ['retired_pages', 'pending_retirement'], 'pages of its memory wait to be retired by a reset'),
    ...saysYes(gpu, ['retired_pages', 'pending_blacklist'], 'pages of its memory wait to be retired by a reset'),
    ...saysYes(gpu, ['remapped_rows', 'remapped_row_pending'], 'rows of its memory wait to be remapped by a reset'),
    ...saysYes(gpu, ['remapped_rows', 'remapped_row_failure'], 'rows of its memory could not be remapped'),
    ...recovery(gpu),
    ...shownXids(gpu),
  ]
}

/** What a driver prints in place of a value when the device no longer answers. */
const lostText = /GPU is lost|\bERR!|Unknown Error|requires reset|fallen off the bus/i
/** Of these, one that cannot be read means that none can. */
const vitalFields = [
  ['product_name'],
  ['uuid'],
  ['fb_memory_usage', 'total'],
  ['fb_memory_usage', 'used'],
  ['temperature', 'gpu_temp'],
  ['utilization', 'gpu_util'],
  ['gpu_power_readings', 'average_power_draw'],
  ['power_readings', 'power_draw'],
  ['pci', 'pci_gpu_link_info', 'pcie_gen', 'current_link_gen'],
  ['performance_state'],
] as const

function lostWords(gpu: XmlElement): string[] {
  const bad = vitalFields
    .map((names) => findElement(gpu, ...names))
    .find((one) => one !== undefined && lostText.test(one.text))
  if (bad === undefined) return []
  return [`it does not answer: its ${bad.name} reads "${bad.text.slice(0, 100)}"`]
}

/** Since the driver was loaded. Older drivers call the uncorrected ones double bit errors. */
function uncorrected(gpu: XmlElement): string[] {
  const volatile = findElement(gpu, 'ecc_errors', 'volatile')
  const direct = (volatile?.children ?? []).filter((one) => one.name.includes('uncorrectable'))
  const old = findElement(volatile, 'double_bit', 'total')
  const total = [...direct, ...(old === undefined ? [] : [old])].reduce((sum, one) => sum + countOf(one.text), 0)
  return total === 0
    ? []
    : [`it has had ${total} memory errors that could not be corrected since the driver was loaded`]
}

function countOf(text: string): number {
  return /^\d+$/.test(text) ? Number.parseInt(text, 10) : 0
}

function saysYes(gpu: XmlElement, names: readonly string[], sentence: string): string[] {
  return findElement(gpu, ...names)?.text.toLowerCase() === 'yes' ? [sentence] : []
}

/** `None`, or what the driver asks for: `Reset`, `Reboot`, `Drain and Reset`. */
function recovery(gpu: XmlElement): string[] {
  const action = findElement(gpu, 'gpu_recovery_action')?.text ?? ''
  return ['', 'none', 'n/a'].includes(action.toLowerCase()) ? [] : [`its driver asks for: ${action.slice(0, 100)}`]
}

/** No driver that we have seen shows them here; the kernel's log does. */
function shownXids(gpu: XmlElement): string[] {
  return gpu.children
    .filter((one) => /(^|_)xid(_|$|s)/i.test(one.name))
    .flatMap((one) => [one, ...one.children])
    .flatMap((one) => (fatalXids[countOf(one.text)] === undefined ? [] : [xidSentence(countOf(one.text))]))
}

/** Those after which the device cannot be trusted before a reset. What a tenant's program does wrong is not here. */
const fatalXids: Readonly<Record<number, string>> = {
  48: 'a memory error that could not be corrected',
  62: 'its controller has halted',
  64: 'a row of its memory could not be remapped',
  74: 'an error on its NVLink',
  79: 'it has fallen off the bus',
  95: 'a memory error that was not contained',
  119: 'its firmware does not answer',
  120: 'its firmware has failed',
  140: 'a memory error that could not be corrected',
}

function xidSentence(code: number): string {
  return `the driver has reported Xid ${code}: ${fatalXids[code] ?? 'unknown'}`
}

/** Lines of the kernel's log such as `NVRM: Xid (PCI:0000:00:06): 79, pid=…`: by PCI address, what was reported of it. */
export function xidsInLog(text: string): Map<string, string> {
  const found = new Map<string, string>()
  for (const [, address = '', code = ''] of text.matchAll(/NVRM: Xid \(PCI:([0-9a-f:.]+)\): (\d+)/gi)) {
    if (fatalXids[countOf(code)] !== undefined) found.set(shortAddress(address), xidSentence(countOf(code)))
  }
  return found
}

/** `00000000:00:06.0` and `0000:00:06` are one device: domain, bus and slot without leading zeros of the domain. */
export function shortAddress(address: string): string {
  const [domain = '', bus = '', slot = ''] = address.toLowerCase().split(':')
  return `${domain.slice(-4)}:${bus}:${slot.replace(/\.\d+$/, '')}`
}
