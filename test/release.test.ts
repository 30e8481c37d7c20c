/** What a release repeats agrees with package.json (RELEASING.md). */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import packageJson from '../package.json' with { type: 'json' }
import { dateSection, hasVersion, versionedFiles, withVersion } from '../scripts/version.ts'

const { version } = packageJson

test.each(versionedFiles)('%s has the version of package.json', (file) => {
  expect(hasVersion(readFileSync(file, 'utf8'), version)).toBe(true)
})

test('a new version is written to each of them, and versions of other packages stay', () => {
  for (const file of versionedFiles) {
    const text = withVersion(readFileSync(file, 'utf8'), version, '9.8.7')
    expect(hasVersion(text, version)).toBe(false)
    expect(hasVersion(text, '9.8.7')).toBe(true)
  }
  expect(withVersion('berth:0.1.0 part1@0.1.0 berth-0.1.01 10.1.0.0', '0.1.0', '2.0.0')).toBe(
    'berth:2.0.0 part1@0.1.0 berth-0.1.01 10.1.0.0',
  )
})

test('the changelog has a section for what is not released, and keeps it when one is dated', () => {
  const changelog = readFileSync('CHANGELOG.md', 'utf8')
  const dated = dateSection(changelog, '9.8.7', '2030-01-02')
  expect(dated.indexOf('## Unreleased')).toBeGreaterThan(0)
  expect(dated.indexOf('## 9.8.7 (2030-01-02)')).toBeGreaterThan(dated.indexOf('## Unreleased'))
  expect(() => dateSection('# Changelog', '9.8.7', '2030-01-02')).toThrow('Unreleased')
})
