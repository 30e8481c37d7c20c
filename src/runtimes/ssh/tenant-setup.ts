/**
 * The options of an order on a bare-metal host, as two scripts that run as the tenant: the first writes environment and
 * files before the hand-over, the second runs the customer's scripts once after it. As the tenant they can write only
 * what the tenant can, and the cleaning finds all of it by its owner.
 */
import type { Program } from '../../contract/agent.ts'
import { exportLines, PUT_FUNCTION, putFile } from '../shell-text.ts'

/** Bash reads .bashrc for commands over SSH, other shells .profile at a login. */
const READ_ENVIRONMENT = `
for one in .profile .bashrc; do
  { echo '[ ! -r "$HOME/.berth-env" ] || . "$HOME/.berth-env"'; cat "$one" 2> /dev/null || :; } > "$one.berth-new" &&
    mv -f "$one.berth-new" "$one"
done`

/** Both empty: nothing to do. */
export function tenantSetup(program: Program | undefined, home: string): { setup: string; scripts: string } {
  if (program === undefined) return { setup: '', scripts: '' }
  const { env, files, onStart, userData } = program
  const exports = exportLines(env)
  const writes = [
    ...(exports === '' ? [] : [putFile(`${home}/.berth-env`, '0600', exports), READ_ENVIRONMENT]),
    ...files.map(({ path, content, mode }) => putFile(path, mode, content)),
    ...(userData === null ? [] : [putFile(`${home}/.berth-user-data`, '0700', userData)]),
    ...(onStart === null ? [] : [putFile(`${home}/.berth-on-start`, '0700', `${onStart}\n`)]),
  ]
  const runs = [
    ...(userData === null ? [] : [userDataRun(userData)]),
    ...(onStart === null ? [] : ['/bin/sh ./.berth-on-start || echo "onStart: exited with code $?"']),
  ]
  return {
    setup: writes.length === 0 ? '' : ['cd "$HOME" || exit 1', 'umask 077', PUT_FUNCTION, ...writes].join('\n'),
    scripts:
      runs.length === 0
        ? ''
        : ['cd "$HOME" || exit 1', '[ ! -r ./.berth-env ] || . ./.berth-env', ...runs, ''].join('\n'),
  }
}

function userDataRun(userData: string): string {
  return userData.startsWith('#!')
    ? './.berth-user-data || echo "userData: exited with code $?"'
    : "echo 'Bare metal has no cloud-init; the user data is in .berth-user-data'"
}
