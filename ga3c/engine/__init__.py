"""GA3C: agents in processes, predictors and trainers in threads, two queues and one model on the device."""
