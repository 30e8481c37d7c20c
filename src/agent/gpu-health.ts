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
  return needsRecovery(row) ? [`the driver asks for: ${row.gpu_recovery_action?.slice(0, 100)}`] : []
}

export function needsRecovery({ gpu_recovery_action: action = '' }: GpuFields): boolean {
  return !['', 'none', 'n/a', '[n/a]', '[not supported]'].includes(action.toLowerCase())
}

/** The hardware has cut the clocks at least in half: it is too hot, or its power supply demands it. */
export function isSlowedDown(row: GpuFields): boolean {
  const reasons = ['hw_thermal_slowdown', 'hw_power_brake_slowdown'] as const
  return reasons.some((reason) => row[`clocks_throttle_reasons.${reason}`] === 'Active')
}

/**
 * Xids after which the device needs a reset, or is broken. Those that a tenant's program causes (13, 31, 43, 45, 68) are
 * not listed, and neither are those that the driver has dealt with (63: a row was remapped, 94: the error was contained).
 */
const fatalXids: Readonly<Record<number, string>> = {
  46: 'stopped processing',
  48: 'uncorrectable memory error',
  54: 'power is not connected',
  62: 'internal micro-controller halted',
  64: 'memory row could not be remapped',
  74: 'NVLink error',
  79: 'fallen off the bus',
  95: 'uncontained memory error',
  110: 'security fault',
  119: 'firmware timeout',
  120: 'firmware error',
  136: 'link training failed',
  140: 'uncorrectable memory error',
  143: 'initialization failed',
  ...Object.fromEntries([144, 145, 146, 147, 148, 149, 150].map((code) => [code, 'NVLink error'])),
  155: 'NVLink error',
  156: 'resource retired',
  158: 'fatal timeout',
}

/** A program can cause it too: it counts only while the driver asks for a recovery action. */
const CONTEXT_SWITCH_TIMEOUT = 109

export interface Xid {
  /** The position in the log, which grows until the next boot. */
  readonly sequence: number
  /** Microseconds on the kernel's clock. */
  readonly microseconds: number
  /** The form is that of `shortAddress`. */
  readonly address: string
  readonly sentence: string
  /** The fault counts only while the driver asks for a recovery action. */
  readonly needsAction: boolean
}

/**
 * The Xids that make a GPU unfit, from records such as `4,812,91000,-;NVRM: Xid (PCI:0000:00:06): 79, pid=…`. Only the
 * kernel's own records count (their priority is below 8, whatever a program writes to the log), and only the beginning of
 * a message, because the rest can quote the name of a tenant's program.
 */
export function xidsInLog(text: string): Xid[] {
  return text.split('\n').flatMap((record) => {
    const [, sequence = '', microseconds = '', address = '', digits = '', detail = ''] =
      /^[0-7],(\d+),(\d+),[^;]*;NVRM: Xid \(PCI:([0-9a-f:.]+)\): (\d{1,4})\b(.*)$/i.exec(record) ?? []
    const code = countOf(digits)
    const needsAction = code === CONTEXT_SWITCH_TIMEOUT
    const phrase = needsAction ? 'context switch timeout' : fatalXids[code]
    // The NVLink Xids say of themselves whether they are fatal.
    if (phrase === undefined || (code >= 144 && code <= 150 && /^, \w+ Nonfatal\b/.test(detail))) return []
    return [
      {
        sequence: Number.parseInt(sequence, 10),
        microseconds: Number.parseInt(microseconds, 10),
        address: shortAddress(address),
        sentence: `the driver reported Xid ${code} (${phrase})`,
        needsAction,
      },
    ]
  })
}

/** `00000000:00:06.0` and `0000:00:06` are the same device. */
export function shortAddress(address: string): string {
  const [domain = '', bus = '', slot = ''] = address.toLowerCase().split(':')
  return `${domain.slice(-4)}:${bus}:${slot.replace(/\.\d+$/, '')}`
}
