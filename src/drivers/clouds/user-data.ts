/**
 * User data for cloud machines: all SSH keys of the order, since most vendors take only one, and the options of the
 * order.
 */
import type { Program } from '../../contract/agent.ts'
import type { RentalSpec } from '../../domain/rental.ts'
import { parseSshPublicKey } from '../../domain/ssh-key.ts'
import { multipart } from '../../runtimes/cloud-init.ts'
import { RUN_ON_START, setupScript, USER_DATA } from '../../runtimes/setup-script.ts'
import { encodedLines, shellQuote } from '../../runtimes/shell-text.ts'

export function userDataOf(tag: string, spec: RentalSpec, program: Program | undefined): string {
  const keys = plainKeys(spec)
  const config = [
    '#cloud-config',
    `ssh_authorized_keys:${keys.length === 0 ? ' []' : ''}`,
    ...keys.map((key) => `  - "${key}"`),
  ]
  return multipart(`${config.join('\n')}\n`, [setupScript(tag, program, false)], program?.userData ?? '')
}

/**
 * Returns the same as a shell script that root runs at the first boot. Some vendors run it at every boot, so it records
 * that it ran. undefined: the customer's user data is not a script, and only cloud-init can process it.
 */
export function startupScriptOf(
  tag: string,
  spec: RentalSpec,
  program: Program | undefined,
  loginUser: string,
): string | undefined {
  const userData = program?.userData ?? ''
  if (userData.trim() !== '' && !userData.startsWith('#!')) return undefined
  const setup = setupScript(tag, program, true)
  const home = loginUser === 'root' ? '/root' : `/home/${loginUser}`
  return [
    '#!/bin/sh',
    'umask 077',
    `done=/var/lib/berth/started-${tag}`,
    '[ ! -e "$done" ] || exit 0',
    `mkdir -p /var/lib/berth ${home}/.ssh`,
    ...plainKeys(spec).map(
      (key) => `grep -qsF ${shellQuote(key)} ${home}/.ssh/authorized_keys || ${appendKey(key, home)}`,
    ),
    `chown -R ${loginUser}: ${home}/.ssh`,
    ...(setup === '' ? [] : [`base64 -d << 'END' | sh\n${encodedLines(setup)}\nEND`]),
    ': > "$done"',
    `[ ! -x ${RUN_ON_START} ] || ${RUN_ON_START}`,
    `[ ! -x ${USER_DATA} ] || ${USER_DATA}`,
    '',
  ].join('\n')
}

function appendKey(key: string, home: string): string {
  return `printf '%s\\n' ${shellQuote(key)} >> ${home}/.ssh/authorized_keys`
}

/** Removes the comments of keys, which are arbitrary text. */
export function plainKeys(spec: Pick<RentalSpec, 'sshKeys'>): string[] {
  return spec.sshKeys.flatMap((text) => parseSshPublicKey(text)?.text.split(' ').slice(0, 2).join(' ') ?? [])
}
