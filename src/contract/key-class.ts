/** How the requests of an API key wait when a model is busy. */
export const keyClasses = ['interactive', 'batch'] as const
export type KeyClass = (typeof keyClasses)[number]
