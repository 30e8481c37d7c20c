/**
 * A script that applies the options of an order inside a machine: its environment, files and start script. It runs as
 * root early in the first boot: cloud-init runs it as a boothook, the small image by itself.
 */
import type { Program } from '../contract/agent.ts'
import { encodedLines, environmentLines, exportLines, PUT_FUNCTION, putFile, shellQuote } from './shell-text.ts'

/** The name of the script on the seed. */
export const SETUP_FILE = 'berth-setup'
/** In the machine. The small image runs `RUN_ON_START` at every boot, and `USER_DATA` once. */
const SETUP_FOLDER = '/var/lib/berth'
export const PROFILE = '/etc/profile.d/berth.sh'
export const RUN_ON_START = `${SETUP_FOLDER}/run-on-start`
export const USER_DATA = `${SETUP_FOLDER}/user-data`
const ON_START = `${SETUP_FOLDER}/on-start`

/** Cloud-init waits for scripts of this kind, so it goes on in the background. */
const runOnStart = `#!/bin/sh
[ ! -r ${PROFILE} ] || . ${PROFILE}
(
  exec > /dev/console 2>&1 < /dev/null
  /bin/sh ${ON_START} || echo "onStart: exited with code $?"
) &
`

/** Empty: nothing to do. `withUserData`: there is no cloud-init that takes it. */
export function setupScript(instance: string, program: Program | undefined, withUserData: boolean): string {
  if (program === undefined) return ''
  const { env, files, onStart } = program
  const userData = withUserData ? program.userData : null
  const exports = exportLines(env)
  const steps = [
    ...(exports === '' ? [] : [putFile(PROFILE, '0644', exports), append('/etc/environment', environmentLines(env))]),
    ...files.map(({ path, content, mode }) => putFile(path, mode, content)),
    ...(onStart === null
      ? []
      : [putFile(ON_START, '0700', `${onStart}\n`), putFile(RUN_ON_START, '0755', runOnStart), PER_BOOT]),
    ...(userData === null ? [] : [putFile(USER_DATA, '0700', userData)]),
  ]
  if (steps.length === 0) return ''
  const done = `${SETUP_FOLDER}/setup`
  return [
    '#!/bin/sh',
    'umask 077',
    // Once: later changes of the owner stay.
    `[ "$(cat ${done} 2> /dev/null)" != ${shellQuote(instance)} ] || exit 0`,
    PUT_FUNCTION,
    `mkdir -p ${SETUP_FOLDER}`,
    ...steps,
    `printf %s ${shellQuote(instance)} > ${done}`,
    '',
  ].join('\n')
}

const PER_BOOT = `if [ -d /var/lib/cloud ]; then
  mkdir -p /var/lib/cloud/scripts/per-boot
  ln -sf ${RUN_ON_START} /var/lib/cloud/scripts/per-boot/berth-on-start
fi`

function append(path: string, content: string): string {
  return `(umask 022; base64 -d >> ${path}) << 'END'\n${encodedLines(content)}\nEND`
}
