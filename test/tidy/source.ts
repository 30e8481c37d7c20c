/** The parsed source tree: imports and exports of each file. The rules use this instead of plain text. */
import fs from 'node:fs'
import path from 'node:path'
import { parseSync, type ParseResult } from 'rolldown/utils'

export interface Source {
  readonly path: string
  readonly text: string
  readonly program: ParseResult['program']
  /** Our own files that it imports, one entry per name; `*` for all. */
  readonly imports: ReadonlyArray<{ readonly path: string; readonly name: string }>
  /** npm packages and `node:` modules. */
  readonly packages: readonly string[]
  readonly exports: ReadonlyArray<{ readonly name: string; readonly isType: boolean }>
}

export function isTest(file: string): boolean {
  return file.startsWith('test/') || file.endsWith('.test.ts')
}

/** The server's side and the console. */
export function isCode(file: string): boolean {
  return /^(src|console)\//.test(file) && !isTest(file)
}

/** Every TypeScript file of these folders. */
export function readSources(folders: readonly string[]): Source[] {
  return listFiles(folders, /\.tsx?$/).map((file) => parseSource(file, fs.readFileSync(file, 'utf8')))
}

export function listFiles(folders: readonly string[], ending: RegExp): string[] {
  return folders
    .filter((folder) => fs.existsSync(folder))
    .flatMap((folder) =>
      fs.readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => path.posix.join(folder, name)),
    )
    .filter((file) => ending.test(file))
    .toSorted()
}

export function parseSource(file: string, text: string): Source {
  const { program, module, errors } = parseSync(file, text)
  if (errors[0] !== undefined) throw new Error(`${file}: ${errors[0].message}`)
  const requests = [
    ...module.staticImports.flatMap(({ moduleRequest, entries }) =>
      entries.length === 0
        ? [{ from: moduleRequest.value, name: '*' }]
        : entries.map(({ importName }) => ({
            from: moduleRequest.value,
            name:
              importName.kind === 'Name' ? (importName.name ?? '') : importName.kind === 'Default' ? 'default' : '*',
          })),
    ),
    ...module.staticExports
      .flatMap((one) => one.entries)
      .flatMap(({ moduleRequest }) => (moduleRequest === null ? [] : [{ from: moduleRequest.value, name: '*' }])),
    // `await import('…')` and the type `import('…').X`.
    ...[...text.matchAll(/\bimport\(\s*'([^']+)'/g)].map(([, from = '']) => ({ from, name: '*' })),
  ]
  return {
    path: file,
    text,
    program,
    imports: requests
      .filter(({ from }) => from.startsWith('.'))
      .map(({ from, name }) => ({ path: path.posix.join(path.posix.dirname(file), from), name })),
    packages: [...new Set(requests.map(({ from }) => from).filter((from) => !from.startsWith('.')))],
    exports: module.staticExports
      .flatMap((one) => one.entries)
      .map(({ exportName, isType }) => ({ name: exportName.name ?? 'default', isType })),
  }
}

export function lineOf(source: Source, offset: number): number {
  return source.text.slice(0, offset).split('\n').length
}

/** These files and everything they import, transitively. */
export function reach(sources: readonly Source[], from: readonly string[]): Set<string> {
  const byPath = new Map(sources.map((source) => [source.path, source]))
  const reached = new Set<string>()
  const visit = (file: string): void => {
    if (reached.has(file)) return
    reached.add(file)
    for (const one of byPath.get(file)?.imports ?? []) visit(one.path)
  }
  from.forEach(visit)
  return reached
}

/** Files that import each other, directly or over others: types and lazy imports count, too. */
export function findCircles(sources: readonly Source[]): string[][] {
  const neighbours = new Map(sources.map(({ path, imports }) => [path, [...new Set(imports.map((one) => one.path))]]))
  // Files that nothing imports, or that import nothing, are in no cycle; what is left after removing them again and
  // again are the cycles and the paths between them.
  for (let before = -1; before !== neighbours.size;) {
    before = neighbours.size
    const imported = new Set([...neighbours.values()].flat())
    for (const [file, to] of neighbours) {
      if (!imported.has(file) || !to.some((one) => neighbours.has(one))) neighbours.delete(file)
    }
  }
  return [...neighbours].map(([file, to]) => [file, ...to.filter((one) => neighbours.has(one))])
}
