/** The uses of files. Customers upload the first kind; Berth writes the others. */
export const filePurposes = ['batch', 'batch_output', 'job_output'] as const
export type FilePurpose = (typeof filePurposes)[number]
