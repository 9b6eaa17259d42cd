//! The logs that locations use, each opened once.

use std::rc::Rc;

use drover_service::access_log::{LogPlan, Target};
use drover_service::{LogFormat, LogFormatConfig};

use super::Compiler;
use crate::config::{AccessLog, BUILT_IN_LOG_FORMATS};
use crate::plan::{LogUse, PlanError};
use crate::rules::Condition;
use crate::variables::Variable;

impl Compiler<'_> {
    pub(super) fn log_use(&mut self, config: &AccessLog) -> Result<Option<LogUse>, PlanError> {
        let target = match &config.syslog {
            Some(syslog) => Some(Target::Syslog((**syslog).clone())),
            None => Target::of(&config.file),
        };
        let Some(target) = target else { return Ok(None) };
        let when = config.when.as_ref().map(|when| Condition::new(when, &self.own)).transpose();
        let when = when.map_err(|source| PlanError::Rule { of: "access_log".to_owned(), source })?;
        let format = Rc::new(self.format(&config.format)?);
        let log = match self.logs.iter().position(|log| log.target == target) {
            Some(log) => log,
            None => {
                self.logs.push(LogPlan { target, buffer: config.buffer.as_usize(), flush: config.flush });
                self.logs.len() - 1
            }
        };
        let uses = |test: fn(&Variable) -> bool| {
            format.uses(test) || when.as_ref().is_some_and(|when| when.uses(test))
        };
        Ok(Some(LogUse {
            log,
            needs_local: uses(Variable::is_local),
            needs_sent_head: uses(Variable::is_sent_field),
            needs_time: uses(Variable::is_local_time),
            when: when.map(Rc::new),
            format,
        }))
    }

    fn format(&self, name: &str) -> Result<LogFormat<Variable>, PlanError> {
        let text = BUILT_IN_LOG_FORMATS.iter().find(|(known, _)| *known == name);
        let built_in = text.map(|(_, text)| LogFormatConfig::of_text((*text).to_owned().into()));
        let own = self.config.log_formats.get(name).cloned().or(built_in);
        let format = own.ok_or_else(|| PlanError::UnknownFormat { name: name.to_owned() })?;
        LogFormat::new(&format, |text| self.own.template(text))
            .map_err(|source| PlanError::Format { name: name.to_owned(), source })
    }
}
