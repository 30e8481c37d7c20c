/** The keyring of the system: which program gets what, with stand-ins that behave as `secret-tool` and `security` do. */
import { chmodSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { removeFolder } from '../../../test/harness/leftover.ts'
import { systemKeyring } from './keyring.ts'

const SECRET = `bk_0000000000000a_${'S'.repeat(49)}`
const ID = '0000000000000a'
let folder: string
let env: Record<string, string>

/** Both keep their secrets in files, and write each call with its input to `calls`. */
const secretTool = `#!/bin/sh
echo "$*" >> "$STORE/calls"
for last; do :; done
case "$1" in
  store) cat > "$STORE/$last" ;;
  lookup) cat "$STORE/$last" 2>/dev/null ;;
  clear) rm -f "$STORE/$last" ;;
esac
`
const security = `#!/bin/sh
echo "$*" >> "$STORE/calls"
case "$1" in
  -i) while read -r command; do set -- $command; printf '%s\\n' "$8" > "$STORE/$6"; done ;;
  find-generic-password) cat "$STORE/$5" 2>/dev/null ;;
  delete-generic-password) rm -f "$STORE/$5" ;;
esac
`

beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'berth-keyring-'))
  for (const [name, text] of [
    ['secret-tool', secretTool],
    ['security', security],
  ] as const) {
    writeFileSync(path.join(folder, name), text)
    chmodSync(path.join(folder, name), 0o755)
  }
  env = { PATH: `${folder}:${process.env['PATH'] ?? ''}`, STORE: folder }
})
afterAll(() => removeFolder(folder))

describe.each(['linux', 'darwin'])('on %s', (platform) => {
  test('a secret is stored, read and removed, and is no argument of any program', () => {
    const keyring = systemKeyring(env, platform)
    expect(keyring?.read(ID)).toBeUndefined()
    expect(keyring?.write(ID, 'API key of Berth for Lab', SECRET)).toBe(true)
    expect(keyring?.read(ID)).toBe(SECRET)
    keyring?.remove(ID)
    expect([keyring?.read(ID), existsSync(path.join(folder, ID))]).toEqual([undefined, false])
    expect(readFileSync(path.join(folder, 'calls'), 'utf8')).not.toContain(SECRET)
  })

  test('without the program nothing is stored', () => {
    const keyring = systemKeyring({ PATH: '/nowhere' }, platform)
    expect([keyring?.write(ID, 'Lab', SECRET), keyring?.read(ID)]).toEqual([false, undefined])
  })

  test('an id is never read as words of a command', () => {
    expect(() => systemKeyring(env, platform)?.read('a b')).toThrow(TypeError)
    expect(() => systemKeyring(env, platform)?.read('a\n-w')).toThrow(TypeError)
  })
})

test('a locked keyring stores nothing, and other systems have none that we know', () => {
  writeFileSync(path.join(folder, 'secret-tool'), '#!/bin/sh\nexit 1\n')
  expect(systemKeyring(env, 'linux')?.write(ID, 'Lab', SECRET)).toBe(false)
  expect(systemKeyring(env, 'win32')).toBeUndefined()
})
