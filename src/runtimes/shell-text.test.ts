import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { encodedLines, environmentLines, exportLines } from './shell-text.ts'

test('a shell reads back what was exported, whatever it is', () => {
  const value = `it's "quoted" $(false) \`false\` \\ \n# end`
  const script = `${exportLines({ VALUE: value, NVIDIA_VISIBLE_DEVICES: 'all', BERTH_GPUS: '1' })}printf %s "$VALUE"`
  expect(execFileSync('/bin/sh', ['-c', script]).toString()).toBe(value)
  expect(script).not.toMatch(/NVIDIA|BERTH/)
})

test('/etc/environment has no values that it cannot hold', () => {
  expect(environmentLines({ A: 'x y', B: 'say "so"', C: `'"`, D: 'a\nb' })).toBe(`A="x y"\nB='say "so"'\n`)
})

test('encoded lines are short and decode to the text', () => {
  const text = 'ä'.repeat(200)
  const lines = encodedLines(text)
  expect(Math.max(...lines.split('\n').map((line) => line.length))).toBe(76)
  expect(Buffer.from(lines, 'base64').toString()).toBe(text)
})
