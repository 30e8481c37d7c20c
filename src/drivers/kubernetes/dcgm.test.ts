import { expect, test } from 'vitest'
import { parseExporter, parseMemory } from './dcgm.ts'
import { findBlockReason } from './gpu-memory.ts'

const text = `# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="5",UUID="GPU-b",modelName="NVIDIA H100",container="main",namespace="berth-a",pod="one"} 12
DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-a",modelName="NVIDIA \\"H100\\"",container="main",namespace="berth-a",pod="one"} 98
DCGM_FI_DEV_FB_USED{gpu="3",UUID="GPU-a",container="main",namespace="berth-a",pod="one"} 70123
DCGM_FI_DEV_GPU_TEMP{gpu="3",UUID="GPU-a",container="main",namespace="berth-a",pod="one"} NaN
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-c",container="",namespace="",pod=""} 70.5
DCGM_FI_DEV_SM_CLOCK{gpu="3",UUID="GPU-a",container="main",namespace="berth-a",pod="one"} 1980
`

test('reads the GPUs of each pod in the order of the node, and leaves out GPUs of none', () => {
  expect([...parseExporter(text)]).toEqual([
    [
      'berth-a/one',
      [
        {
          gpuUtilizationPercent: 98,
          gpuMemoryUsedMib: 70_123,
          gpuTemperatureCelsius: null,
          gpuPowerWatts: null,
        },
        { gpuUtilizationPercent: 12, gpuMemoryUsedMib: null, gpuTemperatureCelsius: null, gpuPowerWatts: null },
      ],
    ],
  ])
  expect(parseExporter('').size).toBe(0)
})

const memory = (...gpus: Array<[gpu: number, mib: number, pod?: string]>) =>
  parseMemory(
    gpus
      .map(
        ([gpu, mib, pod = '']) =>
          `DCGM_FI_DEV_FB_USED{gpu="${gpu}",UUID="GPU-${gpu}",namespace="n",pod="${pod}"} ${mib}`,
      )
      .join('\n'),
  )

test.each([
  { promise: 'idle GPUs are free', gpus: memory([0, 500], [1, 0]), podGpus: 0, isHeld: false },
  {
    promise: 'a GPU that no pod has and whose memory is in use is held',
    gpus: memory([0, 40_000]),
    podGpus: 0,
    isHeld: true,
  },
  { promise: 'the memory of a pod is its own', gpus: memory([0, 40_000, 'one'], [1, 0]), podGpus: 1, isHeld: false },
  { promise: 'beside a pod, the rest counts', gpus: memory([0, 40_000, 'one'], [1, 40_000]), podGpus: 1, isHeld: true },
  {
    promise: 'an exporter that names no pods blames none of them',
    gpus: memory([0, 40_000], [1, 0]),
    podGpus: 1,
    isHeld: false,
  },
  { promise: 'but sees one GPU too many in use', gpus: memory([0, 40_000], [1, 40_000]), podGpus: 1, isHeld: true },
  { promise: 'an exporter without memory proves nothing', gpus: parseMemory(''), podGpus: 0, isHeld: false },
])('$promise', ({ gpus, podGpus, isHeld }) => {
  expect(findBlockReason(gpus, podGpus) !== undefined).toBe(isHeld)
})

test('a GPU with several lines is in use if one of them says so, and says how much', () => {
  const text = ['DCGM_FI_DEV_FB_USED{gpu="2"} 7', 'DCGM_FI_DEV_FB_USED{gpu="2",pod=""} 2048.4'].join('\n')
  expect(findBlockReason(parseMemory(text), 0)).toBe('2048 MiB of GPU 2 are in use, and no pod has it')
})
