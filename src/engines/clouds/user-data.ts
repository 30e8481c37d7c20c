/** User data for machines of clouds: all SSH keys of the order, though most vendors take one, and its options. */
import type { Program } from '../../contract/agent.ts'
import type { EngineSpec } from '../../domain/rental.ts'
import { parseSshPublicKey } from '../../domain/ssh-key.ts'
import { multipart } from '../cloud-init.ts'
import { setupScript } from '../qemu/setup-script.ts'

export function userDataOf(tag: string, spec: EngineSpec, program: Program | undefined): string {
  const keys = plainKeys(spec)
  const config = [
    '#cloud-config',
    `ssh_authorized_keys:${keys.length === 0 ? ' []' : ''}`,
    ...keys.map((key) => `  - "${key}"`),
  ]
  return multipart(`${config.join('\n')}\n`, [setupScript(tag, program, false)], program?.userData ?? '')
}

/** Without comments, which are arbitrary text. */
export function plainKeys(spec: Pick<EngineSpec, 'sshKeys'>): string[] {
  return spec.sshKeys.flatMap((text) => parseSshPublicKey(text)?.text.split(' ').slice(0, 2).join(' ') ?? [])
}
