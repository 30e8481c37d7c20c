/** Every file, folder and test named in ARCHITECTURE.md and the pages it links to exists. */
import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'

const MAX_BYTES = 20_480
const overview = 'ARCHITECTURE.md'
const linked = new Set(
  [...fs.readFileSync(overview, 'utf8').matchAll(/\]\(([^)]+\.md)\)/g)].map(([, page = '']) => page),
)

test('the overview is short enough to read in ten minutes', () => {
  expect(fs.statSync(overview).size).toBeLessThanOrEqual(MAX_BYTES)
})

test.each([overview, ...linked])('%s names only files that exist', (page) => {
  const text = fs.readFileSync(page, 'utf8')
  const names = [...text.matchAll(/`([\w./-]+(?:\/|\.(?:ts|tsx|mjs|sql|md|json)))`/g)].map(([, name = '']) => name)
  const roots = ['.', 'src', path.dirname(page)]
  const generated = (name: string): boolean => name.startsWith('dist/')
  const missing = names.filter(
    (name) => !generated(name) && !roots.some((root) => fs.existsSync(path.join(root, name))),
  )
  expect(missing).toEqual([])
})
