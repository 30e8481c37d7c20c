/**
 * How fast machines are on this host. KVM where it can be opened and the processor has the instructions for it: there
 * are kernels that offer `/dev/kvm` without them, for guests of their own kind, and an ordinary kernel hangs in those.
 * Else the processor is emulated, which works everywhere and is some ten times slower.
 */
import fs from 'node:fs'

export interface Accelerator {
  readonly name: 'kvm' | 'tcg'
  /** What the owner of the host should know. undefined: nothing. */
  readonly note?: string
}

export function chooseAccelerator(wanted: 'auto' | 'kvm' | 'tcg', root = '/'): Accelerator {
  if (wanted === 'tcg') return { name: 'tcg' }
  const why = whyNoKvm(root)
  if (wanted === 'kvm' && why !== undefined) throw new Error(`KVM is required but not available: ${why}`)
  if (why === undefined) return { name: 'kvm' }
  return { name: 'tcg', note: `Virtual machines run in slow emulation: ${why}` }
}

function whyNoKvm(root: string): string | undefined {
  try {
    fs.closeSync(fs.openSync(`${root}/dev/kvm`, 'r+'))
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
    return `/dev/kvm cannot be opened (${code}).`
  }
  if (process.arch === 'arm64') return undefined
  const flags = /^flags\s*:(.*)$/m.exec(fs.readFileSync(`${root}/proc/cpuinfo`, 'utf8'))?.[1] ?? ''
  return /\b(vmx|svm)\b/.test(flags) ? undefined : 'the processor shows no virtualization (vmx or svm).'
}
