import { expect, test } from 'vitest'
import { gpuLabel, gpusLabel, isGpuMatch, shortGpuLabel } from './gpu.ts'

test.each([
  ['NVIDIA-GeForce-RTX-4090', 'RTX 4090', 'RTX 4090'],
  ['NVIDIA GeForce RTX 4090', 'RTX 4090', 'RTX 4090'],
  ['NVIDIA-H100-SXM5-80GB', 'H100 SXM5 80GB', 'H100 SXM5'],
  ['NVIDIA-L40S', 'L40S', 'L40S'],
  [undefined, 'GPU', 'GPU'],
])('%s is shown as %s, or %s without the memory size', (model, label, short) => {
  expect(gpuLabel(model)).toBe(label)
  expect(shortGpuLabel(model)).toBe(short)
})

test('counts GPUs', () => expect(gpusLabel(8, 'H100')).toBe('8 × H100'))

test.each([
  ['RTX 4090', 'rtx4090', true],
  ['RTX 4090', 'RTX-4090', true],
  ['RTX 4090', '409', true],
  ['H100 SXM5', 'h200', false],
])('%s matches %s: %s', (label, text, isMatch) => expect(isGpuMatch(label, text)).toBe(isMatch))
