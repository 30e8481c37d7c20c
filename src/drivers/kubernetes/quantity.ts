/** Quantities of Kubernetes: `250m`, `64Mi`, `2Ti`, `1e3`. */
const units: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 1_024,
  Mi: 1_024 ** 2,
  Gi: 1_024 ** 3,
  Ti: 1_024 ** 4,
  Pi: 1_024 ** 5,
  Ei: 1_024 ** 6,
}

/** Returns cores, bytes or pieces. undefined: not a quantity. */
export function parseQuantity(text: string | undefined): number | undefined {
  const [, digits, unit = ''] = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]{0,2})$/.exec(text?.trim() ?? '') ?? []
  const factor = units[unit]
  const value = Number(digits)
  return digits === undefined || factor === undefined || Number.isNaN(value) ? undefined : value * factor
}
