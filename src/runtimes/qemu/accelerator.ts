/**
 * Chooses the accelerator: KVM if it can be opened and the processor has the instructions, otherwise emulation, about
 * ten times slower. Some kernels offer `/dev/kvm` without these instructions, for special guests; ordinary kernels hang
 * there.
 */
import fs from 'node:fs'

export interface Accelerator {
  readonly name: 'kvm' | 'tcg'
  /** A note for the owner of the host. */
  readonly note?: string
}

export function chooseAccelerator(choice: 'auto' | 'kvm' | 'tcg', root = '/'): Accelerator {
  if (choice === 'tcg') return { name: 'tcg' }
  const reason = whyNoKvm(root)
  if (choice === 'kvm' && reason !== undefined) throw new Error(`KVM is required but not available: ${reason}`)
  if (reason === undefined) return { name: 'kvm' }
  return { name: 'tcg', note: `Virtual machines run in slow emulation: ${reason}` }
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
  return /\b(vmx|svm)\b/.test(flags) ? undefined : 'the processor has no virtualization support (vmx or svm).'
}
