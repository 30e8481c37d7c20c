import { crusoeMutants } from './crusoe.ts'
import { denvrMutants } from './denvr.ts'
import { lambdaMutants } from './lambda.ts'
import { latitudeMutants } from './latitude.ts'
import type { Mutant } from './mutant.ts'
import { verdaMutants } from './verda.ts'
import { voltageParkMutants } from './voltage-park.ts'

export const mutants: readonly Mutant[] = [
  ...crusoeMutants,
  ...denvrMutants,
  ...lambdaMutants,
  ...latitudeMutants,
  ...verdaMutants,
  ...voltageParkMutants,
]
