/**
 * Decides from the driver's report and the kernel log whether a GPU is fit to rent. The rule: anything that corrupts a
 * tenant's work, or that needs a reset first, is a problem. Corrected errors and rows that were remapped in time are
 * ordinary wear: the H200 of the fixture has both.
 */
import type { GpuFields } from './nvidia-smi.ts'

const flagProblems: ReadonlyArray<readonly [flag: string, problem: string]> = [
  ['SRAM Threshold Exceeded', 'too many SRAM cells have failed'],
  ['Unrepairable Memory', 'memory cannot be repaired'],
  ['Channel Repair Pending', 'a memory channel repair needs a reset'],
  ['TPC Repair Pending', 'a core repair needs a reset'],
  ['Pending', 'memory rows need a reset to be remapped'],
  ['Remapping Failure Occurred', 'memory rows could not be remapped'],
]

/** One phrase per problem. `flags` are the lines of the ECC report that say "Yes". */
export function findProblems(row: GpuFields, flags: ReadonlySet<string>): string[] {
  return [
    ...lostDevice(row),
    ...uncorrectedErrors(row),
    ...flagProblems.filter(([flag]) => flags.has(flag)).map(([, problem]) => problem),
    ...(row['retired_pages.pending'] === 'Yes' ? ['memory pages need a reset to be retired'] : []),
    ...recoveryAction(row),
  ]
}

/** Printed in place of a value when the device no longer answers. */
const lostText = /GPU is lost|\bERR!|Unknown Error|requires reset|fallen off the bus/i
/** If one of these cannot be read, none can be trusted. */
const vitalFields = [
  'name',
  'memory.total',
  'memory.used',
  'temperature.gpu',
  'utilization.gpu',
  'power.draw',
  'pcie.link.gen.current',
  'pstate',
] as const

function lostDevice(row: GpuFields): string[] {
  const bad = vitalFields.find((field) => lostText.test(row[field] ?? ''))
  return bad === undefined ? [] : [`does not respond: ${bad} is "${row[bad]?.slice(0, 100)}"`]
}

/** Volatile: since the driver was loaded. */
function uncorrectedErrors(row: GpuFields): string[] {
  const count = countOf(row['ecc.errors.uncorrected.volatile.total'] ?? '')
  return count === 0 ? [] : [`uncorrectable memory errors since the driver loaded: ${count}`]
}

function countOf(text: string): number {
  return /^\d+$/.test(text) ? Number.parseInt(text, 10) : 0
}

/** `None`, or an action such as `Reset`, `Reboot`, `Drain and Reset`. */
function recoveryAction(row: GpuFields): string[] {
  const action = row.gpu_recovery_action ?? ''
  return ['', 'none', 'n/a', '[n/a]', '[not supported]'].includes(action.toLowerCase())
    ? []
    : [`the driver asks for: ${action.slice(0, 100)}`]
}

/** Xids after which the device needs a reset. Xids that a tenant's program causes are not listed. */
const fatalXids: Readonly<Record<number, string>> = {
  48: 'uncorrectable memory error',
  62: 'internal micro-controller halted',
  64: 'memory row could not be remapped',
  74: 'NVLink error',
  79: 'fallen off the bus',
  95: 'uncontained memory error',
  119: 'firmware timeout',
  120: 'firmware error',
  140: 'uncorrectable memory error',
}

function xidSentence(code: number): string {
  return `the driver reported Xid ${code} (${fatalXids[code] ?? 'unknown'})`
}

/** Returns the fatal Xids by PCI address, from kernel log lines such as `NVRM: Xid (PCI:0000:00:06): 79, pid=…`. */
export function xidsInLog(text: string): Map<string, string> {
  const xids = new Map<string, string>()
  for (const [, address = '', code = ''] of text.matchAll(/NVRM: Xid \(PCI:([0-9a-f:.]+)\): (\d+)/gi)) {
    if (fatalXids[countOf(code)] !== undefined) xids.set(shortAddress(address), xidSentence(countOf(code)))
  }
  return xids
}

/** `00000000:00:06.0` and `0000:00:06` are the same device. */
export function shortAddress(address: string): string {
  const [domain = '', bus = '', slot = ''] = address.toLowerCase().split(':')
  return `${domain.slice(-4)}:${bus}:${slot.replace(/\.\d+$/, '')}`
}
