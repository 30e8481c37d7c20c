/** Links in the docs lead somewhere, and tables from the contract are up to date. */
import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { recipeName } from '../src/contract/recipe.ts'
import { fillTables, pagesWithTables } from '../scripts/doc-tables.ts'
import { listFiles } from './tidy/source.ts'

const pages = [
  ...fs.readdirSync('.').filter((name) => name.endsWith('.md')),
  ...listFiles(['docs', 'src', 'console', 'bench', 'schema'], /\.md$/),
]

/** The anchors of a page, as forges write them. */
function anchorsOf(page: string): Set<string> {
  const text = fs.readFileSync(page, 'utf8').replaceAll(/^```.*?^```/gms, '')
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => heading)
  return new Set(
    headings.map((heading) =>
      heading
        .trim()
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
        .replaceAll(' ', '-'),
    ),
  )
}

test.each(pages)('every link in %s leads to a file and a heading', (page) => {
  const links = [...fs.readFileSync(page, 'utf8').matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)
  const broken = links.filter((link) => {
    if (/^[a-z]+:/.test(link)) return false
    const [file = '', anchor] = link.split('#')
    const target = file === '' ? page : path.join(path.dirname(page), file)
    if (!fs.existsSync(target)) return true
    return anchor !== undefined && target.endsWith('.md') && !anchorsOf(target).has(anchor)
  })
  expect(broken).toEqual([])
})

test('the tables of states, scopes and quotas are those of the contract; `npm run doc-tables` writes them', () => {
  const withTables = pages.filter((page) => fs.readFileSync(page, 'utf8').includes('<!-- table: '))
  expect(withTables.toSorted()).toEqual(pagesWithTables.toSorted())
  for (const page of withTables) {
    const text = fs.readFileSync(page, 'utf8')
    expect(text).toBe(fillTables(text))
  }
})

test('gpus promise 18: the docs say of each recipe which version has answered on which GPU, or that none has', () => {
  const rows = gpuRows()
  expect([...rows.keys()].toSorted()).toEqual(recipeName.options.toSorted())
  const tried = [...rows].filter(([, facts]) => facts.includes('NVIDIA')).map(([name]) => name)
  expect(tried).toEqual(['vllm', 'llama.cpp'])
  for (const name of tried) expect(rows.get(name)).toMatch(/\| NVIDIA \w+ \| \w+ 20\d\d \|$/)
})

/** The facts about each recipe in the table of GPUs on which it has answered. */
function gpuRows(): Map<string, string> {
  const text = fs.readFileSync('docs/serving.md', 'utf8')
  const [, table = ''] = text.split('| recipe | version | card | date |')
  const lines = table.split('\n\n', 1)[0]?.split('\n').slice(2) ?? []
  return new Map(
    lines.flatMap((line) =>
      [...(line.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => [name, line]),
    ),
  )
}
