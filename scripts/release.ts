/**
 * `npm run release -- 0.2.0` sets the version everywhere it is written, and dates the changelog's section `Unreleased`.
 * RELEASING.md says what comes before and after.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import packageJson from '../package.json' with { type: 'json' }
import { formatDay, systemClock } from '../src/base/instant.ts'
import { dateSection, withVersion, versionedFiles } from './version.ts'

const [next = ''] = process.argv.slice(2)
if (!/^\d+\.\d+\.\d+$/.test(next)) {
  process.stderr.write('Give the version: npm run release -- 0.2.0\n')
  process.exit(2)
}
for (const file of versionedFiles)
  writeFileSync(file, withVersion(readFileSync(file, 'utf8'), packageJson.version, next))
writeFileSync('CHANGELOG.md', dateSection(readFileSync('CHANGELOG.md', 'utf8'), next, formatDay(systemClock.now())))
execFileSync('npm', ['version', next, '--no-git-tag-version', '--allow-same-version'], { stdio: 'inherit' })
process.stdout.write(`Set ${next}. Read CHANGELOG.md once more, then: git commit -am 'release: ${next}'\n`)
