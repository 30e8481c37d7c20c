import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { extract } from 'tar-stream'
import { expect, test } from 'vitest'
import { fileArchive } from './file-archive.ts'

test('contains the files with their modes, and no folders', async () => {
  const long = `/opt/${'a'.repeat(90)}/${'b'.repeat(90)}`
  const archive = await fileArchive([
    { path: '/etc/app.conf', content: 'ä\n', mode: '0640' },
    { path: long, content: '', mode: '0755' },
  ])
  const entries: unknown[] = []
  for await (const entry of Readable.from([archive]).pipe(extract())) {
    const { name, mode, type, uid } = entry.header
    entries.push([name, mode, type, uid, await text(entry)])
  }
  expect(entries).toEqual([
    ['etc/app.conf', 0o640, 'file', 0, 'ä\n'],
    [long.slice(1), 0o755, 'file', 0, ''],
  ])
})

test.each(['etc/x', '/a/../b', '/a/./b', '/', '//a', '/a/'])('refuses the path %s', async (path) => {
  await expect(fileArchive([{ path, content: '', mode: '0644' }])).rejects.toMatchObject({ reason: 'bad_file_path' })
})
