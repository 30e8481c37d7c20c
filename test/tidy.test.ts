/** Checks over the source tree: imports between rooms, banned constructs, dead code, duplicated lists. */
import fs from 'node:fs'
import { builtinModules } from 'node:module'
import { posix } from 'node:path'
import { describe, expect, test } from 'vitest'
import { cliConfig, serverConfig } from '../rolldown.config.ts'
import { labProjects, labSuites, needTable } from './needs.ts'
import { bans, findBanned } from './tidy/bans.ts'
import { findUncontained, uncontained } from './tidy/listeners.ts'
import { readRooms, roomOf, whyNot } from './tidy/rooms.ts'
import { listsOfCode, listsOfStore, readSchemaLists } from './tidy/schema-lists.ts'
import { bannedPhrases, findPhrase } from './tidy/phrases.ts'
import { findCircles, isCode, isTest, listFiles, parseSource, reach, readSources, type Source } from './tidy/source.ts'

const sources = readSources(['src', 'console', 'test', 'bench', 'scripts'])
const code = sources.filter(({ path }) => isCode(path))
const CONSOLE = 'console/main.tsx'
const entries = [...Object.values(serverConfig.input), ...Object.values(cliConfig.input), CONSOLE]

const MAX_LINES = 400

describe('rooms', () => {
  const rooms = readRooms()

  test('the table in ARCHITECTURE.md names every folder of src/ and the console, and no other', () => {
    expect([...rooms.keys()].toSorted()).toEqual([...new Set(code.map(({ path }) => roomOf(path) ?? path))].toSorted())
  })

  test('the table only allows imports from lower rooms', () => {
    const order = [...rooms.keys()]
    for (const [room, imports] of rooms) {
      for (const one of imports) expect(order.indexOf(one), `${room} → ${one}`).toBeLessThan(order.indexOf(room))
    }
  })

  test('imports follow the table', () => {
    const faults = code.flatMap((source) => source.imports.flatMap((one) => whyNot(rooms, source.path, one.path) ?? []))
    expect([...new Set(faults)]).toEqual([])
  })

  test.each([
    ['src/domain/rental.ts', 'src/store/rental/rental.ts'],
    ['src/store/rental/rental.ts', 'src/drivers/driver.ts'],
    ['src/app/rental/rental.ts', 'src/drivers/mock/driver.ts'],
    ['src/cli/main.ts', 'src/server/settings.ts'],
    ['console/main.tsx', 'src/store/rental/rental.ts'],
    ['src/server/http/http.ts', 'console/main.tsx'],
    ['src/base/money.ts', 'test/sim/clock.ts'],
    ['src/app/rental/rental.ts', 'test/harness/server.ts'],
    ['src/app/rental/rental.ts', 'src/app/rental.test.ts'],
  ])('%s may not import %s', (from, to) => {
    expect(whyNot(rooms, from, to)).toBeDefined()
  })

  test('browser code uses nothing from Node', () => {
    const loaded = reach(sources, ['src/contract/api.ts', 'src/client/client.ts', CONSOLE])
    const isStrange = (path: string, name: string): boolean =>
      path.startsWith('console/') ? builtinModules.includes(name.replace(/^node:/, '')) : name !== 'zod'
    const faults = code.filter(
      ({ path, packages }) => loaded.has(path) && packages.some((name) => isStrange(path, name)),
    )
    expect(faults.map(({ path }) => path)).toEqual([])
  })
})

describe('no file', () => {
  test('listens to what others send without containing errors (issue 31, 1)', () => {
    const found = listFiles(['src'], /\.ts$/)
      .filter((file) => !isTest(file))
      .flatMap((file) => findUncontained(file, fs.readFileSync(file, 'utf8')))
    expect(findUncontained('src/a.ts', "socket.on('data', (bytes) => read(bytes))")).toHaveLength(1)
    expect(findUncontained('src/a.ts', "socket.on(\n  'data',\n  contained(end, read))")).toEqual([])
    expect(found.filter((one) => uncontained[one.split(':')[0] ?? ''] === undefined)).toEqual([])
    expect(Object.keys(uncontained).filter((file) => !found.some((one) => one.startsWith(`${file}:`)))).toEqual([])
  })

  test('is part of an import cycle', () => {
    const pair = [parseSource('a.ts', "import './b.ts'"), parseSource('b.ts', "import type { a } from './a.ts'")]
    expect(findCircles(pair)).not.toEqual([])
    expect(findCircles(sources)).toEqual([])
  })

  test('uses a phrase that plain English replaced', () => {
    const files = ['src', 'console', 'test', 'docs', 'bench', 'scripts'].flatMap((folder) =>
      listFiles([folder], /\.(tsx?|mjs|md)$/),
    )
    const found = [...files, 'README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md']
      .filter((file) => file !== 'test/tidy/phrases.ts')
      .flatMap((file) => findPhrase(fs.readFileSync(file, 'utf8')).map((phrase) => `${file}: ${phrase}`))
    expect(bannedPhrases.filter((phrase) => findPhrase(`x ${phrase} y`).length === 0)).toEqual([])
    expect(found).toEqual([])
  })

  test.each(bans.map((ban) => [ban.name, ban] as const))('%s', (_, ban) => {
    const { except = {}, counts, instead, sample } = ban
    expect(findBanned(ban, parseSource('sample.ts', sample)), 'the sample is caught').not.toEqual([])
    const found = sources.filter(({ path }) => counts(path)).flatMap((source) => findBanned(ban, source))
    const pathOf = (place: string): string => place.split(':')[0] ?? ''
    expect(
      found.filter((place) => !(pathOf(place) in except)),
      `instead: ${instead}`,
    ).toEqual([])
    const needed = new Set(found.map(pathOf))
    expect(
      Object.keys(except).filter((path) => !needed.has(path)),
      'exceptions that nothing needs',
    ).toEqual([])
  })

  test('has a marker for unfinished work', () => {
    const places = listFiles(
      ['src', 'console', 'test', 'bench', 'scripts', 'bin', 'schema', 'docs'],
      /\.(tsx?|mjs|sql|md)$/,
    )
    const marks = /\b(TO(?=DO)DO|FIX(?=ME)ME|XX(?=X)X)\b/
    expect(marks.test(['TO', 'DO'].join(''))).toBe(true)
    expect(places.filter((file) => marks.test(fs.readFileSync(file, 'utf8')))).toEqual([])
  })

  test('has a meaningless name', () => {
    const nameless = /(^|[/-])(utils?|helpers?|common|misc|managers?|services?|index)\.tsx?$/
    expect(nameless.test('src/base/string-utils.ts')).toBe(true)
    expect(sources.map(({ path }) => path).filter((path) => nameless.test(path) || /[A-Z_]/.test(path))).toEqual([])
  })

  test(`of code is longer than ${MAX_LINES} lines`, () => {
    const long = sources.filter(
      ({ path, text }) => /^(src|console)\//.test(path) && text.split('\n').length > MAX_LINES,
    )
    expect(long.map(({ path }) => path)).toEqual([])
  })

  test('of code lacks an opening comment', () => {
    expect(code.filter(({ text }) => !/^\/(\*\*|\/)/.test(text)).map(({ path }) => path)).toEqual([])
  })
})

describe('dead code', () => {
  /** Made for tests, and imported by them. */
  const isForTests = (path: string): boolean => /^src\/(drivers|runtimes)\/conformance/.test(path)
  const tests = sources.filter(({ path }) => path.endsWith('.test.ts')).map(({ path }) => path)

  test('every source file is imported from an entry point', () => {
    const reached = reach(sources, entries)
    const fromTests = reach(sources, tests)
    const dead = code.filter(({ path }) => !(isForTests(path) ? fromTests : reached).has(path))
    expect(dead.map(({ path }) => path)).toEqual([])
  })

  test('every file in test/ is imported by a test', () => {
    const config = fs.readFileSync('vitest.config.ts', 'utf8')
    const named = sources.map(({ path }) => path).filter((path) => config.includes(path))
    const reached = reach(sources, [...tests, ...named, 'bench/run.ts'])
    const dead = sources.filter(({ path }) => path.startsWith('test/') && !reached.has(path))
    expect(dead.map(({ path }) => path)).toEqual([])
  })

  /** An export used only by tests counts if its own file uses it too. */
  test('every export is used', () => {
    const namesOf = (some: readonly Source[]): Set<string> =>
      new Set(some.flatMap(({ imports }) => imports.flatMap((one) => [`${one.path} ${one.name}`])))
    const byCode = namesOf(sources.filter(({ path }) => !isTest(path)))
    const byTests = namesOf(sources.filter(({ path }) => isTest(path)))
    const isUsed = ({ path, text }: Source, { name, isType }: Source['exports'][number]): boolean => {
      if (byCode.has(`${path} ${name}`) || byCode.has(`${path} *`)) return true
      const byName = byTests.has(`${path} ${name}`) || byTests.has(`${path} *`)
      if (byName && isForTests(path)) return true
      const inItsFile = text.split(new RegExp(`\\b${name}\\b`)).length > 2
      // A type may be exported for nobody yet where it is part of what else the file exports.
      return inItsFile && (isType || byName)
    }
    const dead = code.flatMap((source) =>
      source.exports.filter((one) => !isUsed(source, one)).map(({ name }) => `${source.path} ${name}`),
    )
    expect(dead).toEqual([])
  })
})

describe('lab suites', () => {
  const isLab = (file: string): boolean => file.endsWith('.lab.test.ts')

  test('a suite that needs Node alone imports nothing from a lab but types', () => {
    const values = (source: Source): string[] => {
      const lines = source.text.matchAll(/^import (?!type )[^'"]*?from '([^']+)'/gm)
      return [...lines].map(([, from = '']) => posix.join(posix.dirname(source.path), from))
    }
    const faults = sources
      .filter(({ path }) => (path.endsWith('.test.ts') || path.startsWith('test/harness/')) && !isLab(path))
      .flatMap((source) => values(source).flatMap((file) => (file.startsWith('test/lab/') ? [source.path] : [])))
    expect(faults).toEqual([])
  })

  test('every lab suite is in the project of its needs, and no need is unused', () => {
    const suites = labSuites('.')
    expect(suites.map(({ file }) => file).toSorted()).toEqual(sources.map(({ path }) => path).filter(isLab))
    expect(new Set(suites.map(({ project }) => project))).toEqual(new Set(labProjects))
    expect(new Set(suites.flatMap(({ needs }) => needs))).toEqual(new Set(Object.keys(needTable)))
  })
})

describe('the schema matches the code', () => {
  const lists = readSchemaLists()

  test('every value list is compared, or belongs to the store alone', () => {
    expect([...lists.keys()].toSorted()).toEqual([...Object.keys(listsOfCode), ...listsOfStore].toSorted())
  })

  test.each(Object.entries(listsOfCode))('%s', (column, ofCode) => {
    for (const list of lists.get(column) ?? []) {
      for (const words of ofCode) expect(list.toSorted()).toEqual(words.toSorted())
    }
  })
})
