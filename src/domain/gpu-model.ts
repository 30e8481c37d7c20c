/**
 * Facts about GPUs by name. A driver reports neither speed nor board: an H200 on an SXM board is just "NVIDIA H200".
 * The first row whose pattern matches counts, so specific patterns come first.
 */
import type { GpuFormFactor, GpuType } from '../contract/shared.ts'

export interface GpuModel {
  /** Its name in `--simulate-gpus`. */
  readonly word: string
  /** The driver's name for it. */
  readonly name: string
  readonly gpuType: GpuType | null
  readonly formFactor: GpuFormFactor | null
  readonly ramMib: number
  readonly clockMhz: number
  /** Dense FP16 performance on the tensor cores. */
  readonly tflops: number
  /** The socket, unless it is in a PCIe slot; a real GPU in a slot reports its own generation and width. */
  readonly interface: string
}

type Row = readonly [
  pattern: RegExp,
  word: string,
  name: string,
  gpuType: GpuType | null,
  formFactor: GpuFormFactor | null,
  ramMib: number,
  clockMhz: number,
  tflops: number,
  bus: string,
]

// oxfmt-ignore
const rows: readonly Row[] = [
  [/\bB200\b/,             'b200',     'NVIDIA B200',                 'b200', 'sxm6', 183_359, 1_965, 2_250, 'SXM6'],
  [/\bH200 NVL\b/,         'h200nvl',  'NVIDIA H200 NVL',             'h200', 'pcie', 143_771, 1_785,   835, 'PCIe 5.0 x16'],
  [/\bH200\b/,             'h200',     'NVIDIA H200',                 'h200', 'sxm5', 143_771, 1_980,   989, 'SXM5'],
  [/\bH100 NVL\b/,         'h100nvl',  'NVIDIA H100 NVL',             'h100', 'pcie',  95_830, 1_785,   835, 'PCIe 5.0 x16'],
  [/\bH100 PCIe\b/i,       'h100pcie', 'NVIDIA H100 PCIe',            'h100', 'pcie',  81_559, 1_755,   756, 'PCIe 5.0 x16'],
  [/\bH100\b/,             'h100',     'NVIDIA H100 80GB HBM3',       'h100', 'sxm5',  81_559, 1_980,   989, 'SXM5'],
  [/\bA100.*PCIe/i,        'a100pcie', 'NVIDIA A100 80GB PCIe',       null,   'pcie',  81_920, 1_410,   312, 'PCIe 4.0 x16'],
  [/\bA100\b/,             'a100',     'NVIDIA A100-SXM4-80GB',       null,   null,    81_920, 1_410,   312, 'SXM4'],
  [/\bL40S\b/,             'l40s',     'NVIDIA L40S',                 null,   'pcie',  46_068, 2_520,   362, 'PCIe 4.0 x16'],
  [/\bL40\b/,              'l40',      'NVIDIA L40',                  null,   'pcie',  46_068, 2_490,   181, 'PCIe 4.0 x16'],
  [/\bL4\b/,               'l4',       'NVIDIA L4',                   null,   'pcie',  23_034, 2_040,   121, 'PCIe 4.0 x16'],
  [/\bA10\b/,              'a10',      'NVIDIA A10',                  null,   'pcie',  23_028, 1_695,   125, 'PCIe 4.0 x16'],
  [/\bRTX 6000 Ada\b/,     'rtx6000',  'NVIDIA RTX 6000 Ada Generation', null, 'pcie', 49_140, 3_105,   364, 'PCIe 4.0 x16'],
  [/\bRTX A6000\b/,        'a6000',    'NVIDIA RTX A6000',            null,   'pcie',  49_140, 1_800,   155, 'PCIe 4.0 x16'],
  [/\bRTX 5090\b/,         'rtx5090',  'NVIDIA GeForce RTX 5090',     null,   'pcie',  32_607, 2_407,   210, 'PCIe 5.0 x16'],
  [/\bRTX 4090\b/,         'rtx4090',  'NVIDIA GeForce RTX 4090',     null,   'pcie',  24_564, 2_520,   165, 'PCIe 4.0 x16'],
  [/\bRTX 3090\b/,         'rtx3090',  'NVIDIA GeForce RTX 3090',     null,   'pcie',  24_576, 1_695,    71, 'PCIe 4.0 x16'],
  [/\bV100.*PCIe/i,        'v100pcie', 'Tesla V100-PCIE-16GB',        null,   'pcie',  16_384, 1_380,   112, 'PCIe 3.0 x16'],
  [/\bV100\b/,             'v100',     'Tesla V100-SXM2-16GB',        null,   null,    16_384, 1_530,   125, 'SXM2'],
  [/\bT4\b/,               't4',       'Tesla T4',                    null,   'pcie',  15_360, 1_590,    65, 'PCIe 3.0 x16'],
]

const models = rows.map(([pattern, word, name, gpuType, formFactor, ramMib, clockMhz, tflops, bus]) => ({
  pattern,
  model: { word, name, gpuType, formFactor, ramMib, clockMhz, tflops, interface: bus } satisfies GpuModel,
}))

/** undefined: not in the table. */
export function modelNamed(productName: string): GpuModel | undefined {
  const model = models.find(({ pattern }) => pattern.test(productName))?.model
  const instance = /\bMIG (\d)g\.(\d{1,3})gb/.exec(productName)
  return model === undefined || instance === null ? model : instanceOf(model, Number(instance[1]), Number(instance[2]))
}

/** `7g` has all processors of a GPU. An instance is a separate model: an order for a whole GPU must not get it. */
const WHOLE_GPU = 7

function instanceOf(model: GpuModel, part: number, ramGb: number): GpuModel {
  const tflops = Math.round((model.tflops * part) / WHOLE_GPU)
  return { ...model, gpuType: null, tflops, ramMib: ramGb * 1_000 }
}

/**
 * PCI device ids of NVIDIA by model. Where cards differ in memory, only ids of cards with the memory in the table are
 * listed.
 */
const devicesByWord: Readonly<Record<string, readonly string[]>> = {
  b200: ['2901', '29bc'],
  h200nvl: ['233b'],
  h200: ['2335'],
  h100nvl: ['2321'],
  h100pcie: ['2331'],
  h100: ['2330'],
  a100pcie: ['20b5'],
  a100: ['20b2'],
  l40s: ['26b9'],
  l40: ['26b5'],
  l4: ['27b8'],
  a10: ['2236'],
  rtx6000: ['26b1'],
  a6000: ['2230'],
  rtx5090: ['2b85'],
  rtx4090: ['2684'],
  rtx3090: ['2204'],
  v100pcie: ['1db4'],
  v100: ['1db1'],
  t4: ['1eb8'],
}

/** `device` is its PCI identifier, such as `2335`. */
export function modelOfDevice(device: string): GpuModel | undefined {
  return models.find(({ model }) => devicesByWord[model.word]?.includes(device))?.model
}

/** Finds a model by its name in `--simulate-gpus`. */
export function simulatedModel(word: string): GpuModel | undefined {
  return models.find(({ model }) => model.word === word)?.model
}

export const simulatedModelNames: readonly string[] = models.map(({ model }) => model.word)

/** The name as listings spell it: one word, like node labels of a cluster. */
export function listedName(productName: string): string {
  return productName.trim().replaceAll(/\s+/g, '-')
}
