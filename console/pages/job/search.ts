/** Search parameters of this page. */
import { limits } from '../../../src/base/limits.ts'
import { amount, searchReader } from '../../search.ts'

/** `task`: the index of the task to show. */
export const jobSearch = searchReader({ task: amount(0, limits.jobTasks - 1) })
