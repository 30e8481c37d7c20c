import { expect, test } from 'vitest'
import { parseExporter } from './dcgm.ts'

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
